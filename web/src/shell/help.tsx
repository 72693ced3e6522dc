/** The sheet of `?`: every key, and how to read the page. */

import { useEffect, useRef } from "preact/hooks";
import { t } from "../i18n/i18n";
import { BINDINGS, helpOpen } from "./keyboard";

export function Help() {
  const sheet = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (helpOpen.value) sheet.current?.showModal();
    else sheet.current?.close();
  }, [helpOpen.value]);
  return (
    <dialog
      ref={sheet}
      class="help"
      aria-labelledby="help-title"
      onCancel={() => (helpOpen.value = false)} // Escape: `close` comes a task later, a key may come before
      onClose={() => (helpOpen.value = false)}
      onClick={(event) => event.target === sheet.current && (helpOpen.value = false)}
    >
      <h2 id="help-title">{t({ ko: "글쇠", en: "Keys" })}</h2>
      <table>
        <tbody>
          {BINDINGS.map(({ label, description }) => (
            <tr key={label}>
              <th scope="row">
                <kbd>{label}</kbd>
              </th>
              <td>{t(description)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p>
        {t({
          ko: "가리키면 얇은 테두리, 누르면 굵은 테두리로 고정됩니다. 지도에서 Shift와 누르면 머리를 꽂아 견줍니다. 층과 머리는 0부터 셉니다.",
          en: "What is pointed at has a thin frame, what is locked a thick one. Shift-press heads on the map to pin and compare them. Layers and heads are counted from 0.",
        })}
      </p>
      <button type="button" class="primary" onClick={() => (helpOpen.value = false)}>
        {t({ ko: "닫기", en: "close" })}
      </button>
    </dialog>
  );
}
