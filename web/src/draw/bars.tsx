/** Horizontal bars with names and numbers, one or two per row, drawn for the page and for exported files. */

import type { VNode } from "preact";
import { type DrawingColours, textWidth } from "./svg";
import { displayText } from "./text";

export interface Bar {
  readonly name: string;
  /** One number, or one before and one after; null: unknown. */
  readonly values: readonly (number | null)[];
  readonly strong?: boolean;
  /** Text after the numbers. */
  readonly note?: string | undefined;
}

export interface Drawing {
  readonly content: VNode;
  readonly width: number;
  readonly height: number;
}

const ROW = 19;
const NUMBER = 46;

/** The bars; a value of `max` is `length` pixels long. */
export function bars(all: readonly Bar[], colours: DrawingColours, length: number, max: number, digits = 4): Drawing {
  const names = all.map(({ name }) => shortenName(displayText(name)));
  const left = Math.max(24, ...names.map((name) => textWidth(name))) + 8;
  const barLength = (value: number) => (max > 0 ? Math.max(0, Math.min(1, value / max)) * length : 0);
  const rows = all.map(({ values, strong, note }, i) => {
    const barHeight = values.length > 1 ? 7 : 12;
    return (
      <g key={i} transform={`translate(0 ${i * ROW * (values.length > 1 ? 1.25 : 1)})`}>
        <text x={left - 8} y={13} text-anchor="end" font-weight={strong ? 700 : undefined} fill={strong ? colours.focus : colours.ink}>
          {names[i]}
        </text>
        {values.map((value, n) => (
          <rect
            key={n}
            x={left}
            y={values.length > 1 ? 1 + n * 9 : 2}
            width={value === null ? 0 : Math.max(barLength(value), 0.5)}
            height={barHeight}
            fill={n + 1 === values.length ? colours.accent : colours.faint}
          />
        ))}
        <text x={left + length + 6} y={13} font-size={11} fill={colours.faint}>
          {values.map((value) => (value === null ? "–" : value.toFixed(digits))).join(" → ")}
          {note ? (
            <tspan dx={6} fill={strong ? colours.focus : colours.bad}>
              {note}
            </tspan>
          ) : null}
        </text>
      </g>
    );
  });
  const pairs = all.some(({ values }) => values.length > 1);
  const note = Math.max(0, ...all.map((each) => textWidth(each.note ?? "", 11)));
  return {
    content: <g font-size={12}>{rows}</g>,
    width: left + length + 6 + (pairs ? 2.4 : 1) * NUMBER + (note && note + 10),
    height: all.length * ROW * (pairs ? 1.25 : 1),
  };
}

function shortenName(text: string): string {
  const letters = [...text];
  return letters.length > 16 ? `${letters.slice(0, 15).join("")}…` : text;
}
