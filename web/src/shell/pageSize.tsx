/** How large a saved page is, and why. */

import { type Message, t } from "../i18n/i18n";

/** The large parts of the file by the ids of their elements (jumok/viewer/page.py). */
const PARTS: readonly (readonly [id: string, name: Message])[] = [
  ["trace", { ko: "트레이스", en: "trace" }],
  ["packed-model", { ko: "모델", en: "model" }],
  ["packed-kernel", { ko: "커널", en: "kernel" }],
  ["packed-script", { ko: "스크립트", en: "scripts" }],
  ["packed-font", { ko: "글꼴", en: "font" }],
];

/** Kilobytes of gzip in base64. Nothing in a page that a server delivers. */
export function PageSize() {
  const sizes = PARTS.map(([id, name]) => [t(name), Math.round((document.getElementById(id)?.textContent?.length ?? 0) / 1000)] as const).filter(([, size]) => size);
  return sizes[0] ? (
    <p data-role="page-size">
      {sizes.reduce((sum, [, size]) => sum + size, 0)} kB = {sizes.map((part) => part.join(" ")).join(" + ")}
    </p>
  ) : null;
}
