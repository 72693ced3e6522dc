/** The room of a view, updated when the window is resized. */

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

/** The same, and the height of the stage: of a page that scrolls at most three fifths of the window. */
export function useRoom(first: number) {
  const [box, width] = useWidth(first);
  const [height, setHeight] = useState(innerHeight / 2);
  useLayoutEffect(() => {
    const stage = box.current?.closest(".stage");
    const observer = new ResizeObserver(() => {
      const isScrolled = document.documentElement.scrollHeight > innerHeight;
      setHeight(isScrolled ? 0.6 * innerHeight : stage?.clientHeight || innerHeight / 2);
    });
    if (stage) observer.observe(stage);
    return () => observer.disconnect();
  }, []);
  return [box, width, height] as const;
}
