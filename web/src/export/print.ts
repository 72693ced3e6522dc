/** A picture as a PDF of its size, by the print dialog of the browser; also in an exported page, without a server. */

import { embedFont } from "./png";

export async function printPicture(svg: string): Promise<void> {
  const image = new Image();
  image.src = URL.createObjectURL(new Blob([await embedFont(svg)], { type: "image/svg+xml" })); // shapes and letters in the PDF
  image.className = "printed";
  await image.decode();
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(
    `@page{size:${image.naturalWidth}px ${image.naturalHeight}px;margin:0}.printed{display:none}` +
      "@media print{html,body{display:block;height:auto;margin:0;overflow:visible}body>:not(.printed){display:none}.printed{display:block}}",
  );
  document.adoptedStyleSheets.push(sheet);
  document.body.append(image);
  const remove = () => {
    image.remove();
    URL.revokeObjectURL(image.src);
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((each) => each !== sheet);
  };
  addEventListener("afterprint", remove, { once: true });
  print();
}
