/** Export: the view of now as a page, a picture, a figure for print, a table, or lines of Python. */

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { sentence } from "../state/loaded";
import { name as traceName } from "../state/open";
import { sequence, view as viewId } from "../state/state";
import { encode } from "../state/url";
import { api, post } from "../trace/api";
import { boot } from "../trace/source";
import type { Trace } from "../trace/trace";
import { views } from "../views/index";
import { drawn } from "../views/parts";
import type { About } from "../views/view";
import { type Words, say } from "../words/words";
import { csv } from "./csv";
import { type Figure, figureNow } from "./figures";
import "./menu.css";
import { fileName } from "./names";
import { pageText } from "./page";
import { png, withFont } from "./png";
import { snippet } from "./python";
import { save } from "./save";

/** Whether the menu is open; the shell's key opens it, too. */
export const exporting = signal(false);

const working = signal(false);
const told = signal("");
const python = signal("");

const WIDTHS = [3.3, 6.9] as const; // inches: one column, two columns

export function ExportMenu({ trace }: { readonly trace: Trace }) {
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const open = exporting.value;
  useEffect(() => {
    if (!open) return;
    told.value = python.value = "";
    box.current?.querySelector("button")?.focus();
    const outside = (event: PointerEvent) => {
      if (!box.current?.parentElement?.contains(event.target as Node)) exporting.value = false;
    };
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, [open]);
  return (
    <div
      class="export"
      data-role="export"
      onKeyDown={(event) => {
        if (!open || event.key !== "Escape") return;
        event.stopPropagation();
        exporting.value = false;
        button.current?.focus();
      }}
    >
      <button ref={button} type="button" aria-expanded={open} onClick={() => (exporting.value = !open)}>
        {say({ ko: "내보내기", en: "Export" })}
      </button>
      {open ? (
        <div ref={box} class="export-menu" role="group" aria-label={say({ ko: "내보내기", en: "Export" })}>
          <Items trace={trace} view={views.find(({ id }) => id === viewId.value) ?? views[0]} />
        </div>
      ) : null}
    </div>
  );
}

function Items({ trace, view }: { readonly trace: Trace; readonly view: About }) {
  const shows = view.has(trace.info);
  const area = useRef<HTMLTextAreaElement>(null);
  const served = boot().mode !== "embedded" && traceName.value !== null;
  const figure = figureNow(trace.info);
  const file = (extension: string) => fileName([trace.info.title, view.id], extension);
  const item = (title: Words, extension: string, make: () => Promise<Blob>) => (
    <button
      type="button"
      data-export={extension}
      disabled={working.value}
      onClick={() => void work(async () => save(await make(), file(extension)), file(extension))}
    >
      {say(title)}
    </button>
  );
  const { svg, table } = drawn(view.id, null) ?? {};
  return (
    <>
      {item({ ko: "HTML 한 파일", en: "HTML, one file" }, "html", page)}
      {svg && shows ? (
        <>
          {item({ ko: "SVG 그림", en: "SVG picture" }, "svg", async () => new Blob([await withFont(await svg(trace))], { type: "image/svg+xml" }))}
          {item({ ko: "PNG 그림 (2배)", en: "PNG picture (2×)" }, "png", async () => png(await svg(trace)))}
        </>
      ) : null}
      {served && figure && shows
        ? WIDTHS.map((width) => item({ ko: `PDF (${width} 인치)`, en: `PDF (${width} inches)` }, "pdf", () => pdf(figure, width)))
        : null}
      {table && shows
        ? item({ ko: "CSV 표", en: "CSV table" }, "csv", async () => new Blob([csv(await table(trace))], { type: "text/csv" }))
        : null}
      <button type="button" data-export="py" onClick={() => void copy(trace, () => area.current)}>
        {say({ ko: "파이썬으로 복사", en: "Copy as Python" })}
      </button>
      {served ? null : (
        <>
          <button type="button" onClick={() => print()}>
            {say({ ko: "인쇄", en: "Print" })}
          </button>
          <p>{say(NO_PDF)}</p>
        </>
      )}
      {python.value ? (
        <textarea ref={area} readOnly rows={7} spellcheck={false} value={python.value} aria-label="Python" />
      ) : null}
      <p role="status">{told.value}</p>
    </>
  );
}

const NO_PDF: Words = {
  ko: "PDF는 jumok view로 연 페이지에서 만듭니다. 여기서는 인쇄하거나 SVG로 저장하세요.",
  en: "PDF is made by the page that jumok view opens; here, print or save as SVG.",
};

/** Does it, and says what came of it. */
async function work(make: () => Promise<void>, name: string): Promise<void> {
  working.value = true;
  told.value = "";
  try {
    await make();
    told.value = say({ ko: `저장했습니다: ${name}`, en: `Saved: ${name}` });
  } catch (error) {
    told.value = sentence(error);
  }
  working.value = false;
}

/** The page as one file: made by the server, or by itself where it is one already. */
async function page(): Promise<Blob> {
  if (boot().mode === "embedded" || traceName.value === null) return new Blob([pageText(encode())], { type: "text/html" });
  return (await api(`api/page/${traceName.value}?state=${encodeURIComponent(encode())}`)).blob();
}

async function pdf({ kind, options }: Figure, width: number): Promise<Blob> {
  return (await post("api/figure", { ...options, trace: traceName.value, figure: kind, format: "pdf", width })).blob();
}

/** Shows the lines and copies them, where the browser lets a page do so. */
async function copy(trace: Trace, area: () => HTMLTextAreaElement | null): Promise<void> {
  python.value = snippet(trace.info, sequence.value, figureNow(trace.info));
  await new Promise(requestAnimationFrame); // until they are on the page
  area()?.select();
  told.value = document.execCommand("copy") // unlike navigator.clipboard it works in sandboxed frames
    ? say({ ko: "복사했습니다.", en: "Copied." })
    : say({ ko: "브라우저가 복사를 막았습니다. 위의 줄을 복사하세요.", en: "The browser forbids copying; take the lines above." });
}
