/** The width of a view's box, updated when the window is resized. */

import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** A ref for the box, and its width in pixels; `first` until it is measured. */
export function useWidth(first: number) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(first);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([{ contentRect }]) => setWidth(contentRect.width || first));
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return [box, width] as const;
}
