/** A canvas with the resolution of the screen; it redraws when a signal that `draw` has read changes. */

import { effect, signal } from "@preact/signals";
import type { ComponentProps } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { type Palette, palette } from "./palette";

/** Paints in CSS pixels on a cleared canvas. */
export type Draw = (g: CanvasRenderingContext2D, colours: Palette) => void;

export interface CanvasProps extends Omit<ComponentProps<"canvas">, "width" | "height" | "label"> {
  readonly width: number;
  readonly height: number;
  readonly draw: Draw;
  /** A description of the picture for screen readers; empty: decoration. */
  readonly label: string;
}

const pixelRatio = signal(globalThis.devicePixelRatio || 1);

export function Canvas({ width, height, draw, label, style, ...rest }: CanvasProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(
    () =>
      effect(() => {
        const g = canvas.current?.getContext("2d");
        if (!g) return;
        const ratio = pixelRatio.value;
        g.canvas.width = Math.max(1, Math.round(width * ratio));
        g.canvas.height = Math.max(1, Math.round(height * ratio));
        g.setTransform(ratio, 0, 0, ratio, 0, 0);
        draw(g, palette.value);
      }),
    [width, height, draw],
  );
  const accessibility = label ? { role: "img" as const, "aria-label": label } : { "aria-hidden": true };
  const size = { ...(typeof style === "object" ? style : {}), width: `${width}px`, height: `${height}px` };
  return <canvas ref={canvas} {...accessibility} {...rest} style={size} />;
}

/** Tracks the resolution of the screen, which changes with zoom and with another screen. */
function followRatio(): void {
  pixelRatio.value = devicePixelRatio;
  matchMedia(`(resolution: ${devicePixelRatio}dppx)`).addEventListener("change", followRatio, { once: true });
}
followRatio();
