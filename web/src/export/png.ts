/** SVG with an embedded Hangul font, and PNG at twice its size. */

import { post } from "../trace/api";
import { gunzipBase64 } from "../trace/source";

const MAX_SIDE = 16_000; // pixels of a side that every browser's canvas supports

/** Embeds the page's Hangul font, so that the SVG looks the same where no Hangul font is installed; unchanged without Hangul. */
export async function embedFont(svg: string): Promise<string> {
  const letters = [...new Set(svg)].filter((letter) => letter >= "\u{1100}").join("");
  const font = letters && (await fetchFont(letters));
  if (!font) return svg;
  const style = `<style>@font-face{font-family:'Jumok Hangul';src:url(${await dataUrl(font)})}</style>`;
  return svg.replace(">", () => `>${style}`); // the first ">" only: attributes contain no bare ">"
}

/** A font with these letters: from an exported page, else from the server; null: not available. */
async function fetchFont(text: string): Promise<Blob | null> {
  const packed = document.getElementById("packed-font")?.textContent;
  const content = packed ? await gunzipBase64(packed) : await post("api/font", { text }).then((response) => response.arrayBuffer(), () => null);
  return content && new Blob([content], { type: "font/ttf" });
}

function dataUrl(content: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(new Error("cannot read the font"));
    reader.readAsDataURL(content);
  });
}

/** Renders the SVG, scaled by `times`. */
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
      canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the picture is too large for a PNG in this browser; export it as SVG"))));
    });
  } finally {
    URL.revokeObjectURL(url);
  }
}
