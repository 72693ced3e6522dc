/** An SVG as a PNG of twice its size, its Hangul in the page's own font whatever the machine has. */

import { unzipped } from "../trace/source";

const LARGEST = 16_000; // pixels of a side that canvases hold everywhere

/** The font of the page: it lies in a page of one file, else beside the page. */
export async function pageFont(): Promise<Blob | null> {
  const packed = document.getElementById("packed-font")?.textContent;
  if (packed) return new Blob([await unzipped(packed)]);
  if (location.protocol !== "http:" && location.protocol !== "https:") return null;
  const answer = await fetch("JumokHangul.woff2").catch(() => null);
  return answer?.ok ? answer.blob() : null;
}

/** The SVG with a font of its own inside, as a picture that is drawn apart from the page needs it. */
export async function withFont(svg: string, font: Blob | null): Promise<string> {
  if (!font) return svg;
  const url = await dataUrl(new Blob([font], { type: "font/woff2" }));
  const style = `<style>@font-face{font-family:'Jumok Hangul';src:url(${url}) format('woff2')}</style>`;
  return svg.replace(">", () => `>${style}`); // the first: no attribute holds a bare ">"
}

function dataUrl(content: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(new Error("the font could not be read"));
    reader.readAsDataURL(content);
  });
}

/** Draws the SVG, `times` as large. */
export async function png(svg: string, times = 2): Promise<Blob> {
  const url = URL.createObjectURL(new Blob([await withFont(svg, await pageFont())], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const scale = Math.min(times, LARGEST / Math.max(image.naturalWidth, image.naturalHeight));
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(image.naturalWidth * scale);
    canvas.height = Math.round(image.naturalHeight * scale);
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve, reject) => {
      canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the picture is too large for this browser; save it as SVG"))));
    });
  } finally {
    URL.revokeObjectURL(url);
  }
}
