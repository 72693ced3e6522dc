/** The export menu: the current view as a page, a picture, a figure for print, a table, or Python code. */

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { errorText } from "../state/useAsync";
import { effectsOf, traceId as traceName } from "../state/session";
import { sequence, } from "../state/state";
import { encodeState } from "../state/url";
import { api, post } from "../trace/api";
import { bootConfig } from "../trace/source";
import type { Trace } from "../trace/trace";
import { chosenView } from "../views/index";
import { viewRenderer } from "../views/bundles";
import type { ViewInfo } from "../views/view";
import { type Message, t } from "../i18n/i18n";
import { csv } from "./csv";
import { currentFigure, type Figure } from "./figures";
import "./menu.css";
import { fileName } from "./fileName";
import { pageText, withEffects } from "./page";
import { embedFont, renderPng } from "./png";
import { printPicture } from "./print";
import { pythonSnippet } from "./python";

/** Whether the menu is open; the keyboard shortcut opens it, too. */
export const exportOpen = signal(false);

const working = signal(false);
const statusText = signal("");
const pythonCode = signal("");

const WIDTHS = [3.3, 6.9] as const; // inches: one column, two columns

export function ExportMenu({ trace }: { readonly trace: Trace }) {
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const open = exportOpen.value;
  useEffect(() => {
    if (!open) return;
    statusText.value = pythonCode.value = "";
    box.current?.querySelector("button")?.focus();
    const outside = (event: PointerEvent) => {
      if (!box.current?.parentElement?.contains(event.target as Node)) exportOpen.value = false;
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
        exportOpen.value = false;
        button.current?.focus();
      }}
    >
      <button ref={button} type="button" aria-expanded={open} onClick={() => (exportOpen.value = !open)}>
        {t({ ko: "내보내기", en: "export" })}
      </button>
      {open ? (
        <div ref={box} class="export-menu" role="group" aria-label={t({ ko: "내보내기", en: "export" })}>
          <ExportItems trace={trace} view={chosenView()} />
        </div>
      ) : null}
    </div>
  );
}

function ExportItems({ trace, view }: { readonly trace: Trace; readonly view: ViewInfo }) {
  const shows = view.supports(trace.info);
  const area = useRef<HTMLTextAreaElement>(null);
  const served = bootConfig().mode !== "embedded" && traceName.value !== null;
  const figure = view.id === "heads" && effectsOf(trace) ? null : currentFigure(trace.info); // the figure has no effects
  const file = (extension: string) => fileName([trace.info.title, view.id], extension);
  const item = (title: Message, extension: string, make: () => Promise<Blob>) => (
    <button
      type="button"
      data-export={extension}
      disabled={working.value}
      onClick={() => void runExport(async () => save(await make(), file(extension)), file(extension))}
    >
      {t(title)}
    </button>
  );
  const { svg, table } = viewRenderer(view.id, null) ?? {};
  return (
    <>
      {item({ ko: "HTML 파일 하나", en: "HTML, one file" }, "html", () => exportPage(trace))}
      {svg && shows ? (
        <>
          {item({ ko: "SVG 그림", en: "SVG picture" }, "svg", async () => new Blob([await embedFont(await svg(trace))], { type: "image/svg+xml" }))}
          {item({ ko: "PNG 그림 (2배)", en: "PNG picture (2×)" }, "png", async () => renderPng(await svg(trace)))}
          <button type="button" data-export="print" disabled={working.value} onClick={() => void svg(trace).then(printPicture)}>
            {t({ ko: "PDF 그림 (인쇄 창)", en: "PDF picture (print dialog)" })}
          </button>
        </>
      ) : null}
      {served && figure && shows
        ? WIDTHS.map((width) => item({ ko: `논문용 PDF (${width}인치)`, en: `PDF for a paper (${width} inches)` }, "pdf", () => exportPdf(figure, width)))
        : null}
      {table && shows
        ? item({ ko: "CSV 표", en: "CSV table" }, "csv", async () => new Blob([csv(await table(trace))], { type: "text/csv" }))
        : null}
      <button type="button" data-export="py" onClick={() => void copyPython(trace, () => area.current)}>
        {t({ ko: "Python 코드 복사", en: "copy as Python" })}
      </button>
      {pythonCode.value ? (
        <textarea ref={area} readOnly rows={7} spellcheck={false} value={pythonCode.value} aria-label="Python" />
      ) : null}
      {served && !figure && shows && view.id === "heads" ? <p>PDF: jumok heads (--sweep | --patch) --out</p> : null}
      <p role="status">{statusText.value}</p>
    </>
  );
}

/** Runs an export and reports its result. */
async function runExport(make: () => Promise<void>, name: string): Promise<void> {
  working.value = true;
  statusText.value = "";
  try {
    await make();
    statusText.value = t({ ko: `저장했습니다: ${name}`, en: `Saved: ${name}` });
  } catch (error) {
    statusText.value = errorText(error);
  }
  working.value = false;
}

/** The page as one file: from the server, or from the page itself when it is an exported file. */
async function exportPage(trace: Trace): Promise<Blob> {
  const served = bootConfig().mode !== "embedded" && traceName.value !== null;
  const page = served ? await (await api(`api/page/${traceName.value}?state=${encodeURIComponent(encodeState())}`)).text() : pageText(encodeState());
  return new Blob([withEffects(page, effectsOf(trace))], { type: "text/html" });
}

async function exportPdf({ kind, options }: Figure, width: number): Promise<Blob> {
  return (await post("api/figure", { ...options, trace: traceName.value, figure: kind, format: "pdf", width })).blob();
}

/** Shows the Python code and copies it where the browser allows it. */
async function copyPython(trace: Trace, area: () => HTMLTextAreaElement | null): Promise<void> {
  pythonCode.value = pythonSnippet(trace.info, sequence.value, currentFigure(trace.info));
  await new Promise(requestAnimationFrame); // until the text area is rendered
  area()?.select();
  statusText.value = document.execCommand("copy") // works in sandboxed frames, unlike navigator.clipboard
    ? t({ ko: "복사했습니다.", en: "Copied." })
    : t({ ko: "브라우저가 복사를 막았습니다. 위의 코드를 직접 복사하세요.", en: "The browser does not allow copying; copy the code above." });
}

/** Downloads a file; in a frame that may not download, the browser does nothing and reports no error. */
function save(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // reading a large file takes a while
}
