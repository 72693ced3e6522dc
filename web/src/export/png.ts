/** An SVG with its Hangul inside, and as a PNG of twice its size. */

import { post } from "../trace/api";
import { gunzipBase64 } from "../trace/source";

const MAX_SIDE = 16_000; // pixels of a side that canvases hold everywhere

/** The SVG with the page's Hangul inside, so that it looks alike where no font has any; as it is without Hangul. */
export async function embedFont(svg: string): Promise<string> {
  const letters = [...new Set(svg)].filter((letter) => letter >= "\u{1100}").join("");
  const font = letters && (await fetchFont(letters));
  if (!font) return svg;
  const style = `<style>@font-face{font-family:'Jumok Hangul';src:url(${await dataUrl(font)})}</style>`;
  return svg.replace(">", () => `>${style}`); // the first: no attribute holds a bare ">"
}

/** A font with these letters: that of a page of one file, else made by the server; null: there is none. */
async function fetchFont(text: string): Promise<Blob | null> {
  const packed = document.getElementById("packed-font")?.textContent;
  const content = packed ? await gunzipBase64(packed) : await post("api/font", { text }).then((answer) => answer.arrayBuffer(), () => null);
  return content && new Blob([content], { type: "font/ttf" });
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
export async function renderPng(svg: string, times = 2): Promise<Blob> {
  const url = URL.createObjectURL(new Blob([await embedFont(svg)], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const scale = Math.min(times, MAX_SIDE / Math.max(image.naturalWidth, image.naturalHeight));
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
