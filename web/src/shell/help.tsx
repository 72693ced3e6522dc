/** The help dialog of `?`: all keys, and how to read the page. */

import { useEffect, useRef } from "preact/hooks";
import { type Message, t } from "../i18n/i18n";
import { language } from "../state/state";
import { BINDINGS, helpOpen } from "./keyboard";
import { PageSize } from "./pageSize";
import terms from "./terms.json";

export function Help() {
  const sheet = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (!helpOpen.value) return sheet.current?.close();
    sheet.current?.showModal(); // focuses the button at the end
    sheet.current?.scrollTo(0, 0);
  }, [helpOpen.value]);
  return (
    <dialog
      ref={sheet}
      class="help"
      aria-labelledby="help-title"
      onCancel={() => (helpOpen.value = false)} // Escape: `close` follows in a later task, and another key may come first
      onClose={() => (helpOpen.value = false)}
      onClick={(event) => event.target === sheet.current && (helpOpen.value = false)}
    >
      <h2 id="help-title">{t({ ko: "단축키", en: "Keyboard shortcuts" })}</h2>
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
          ko: "마우스를 올리면 얇은 테두리, 클릭하면 굵은 테두리로 고정됩니다. 헤드 맵에서 Shift+클릭하면 헤드를 고정해 비교합니다. 레이어와 헤드 번호는 0부터 시작합니다.",
          en: "Hovering shows a thin frame, a click locks it with a thick one. Shift-click heads on the head map to pin and compare them. Layers and heads are counted from 0.",
        })}
      </p>
      <h2>{t({ ko: "용어", en: "Glossary" })}</h2>
      <dl data-role="glossary">
        {(terms as readonly { term: Message; meaning: Message }[]).map(({ term, meaning }) => (
          <div key={term.en}>
            <dt>
              <b>{t(term)}</b> {language.value === "ko" && term.ko !== term.en && <span lang="en">{term.en}</span>}
            </dt>
            <dd>{t(meaning)}</dd>
          </div>
        ))}
      </dl>
      <PageSize />
      <button type="button" class="primary" onClick={() => (helpOpen.value = false)}>
        {t({ ko: "닫기", en: "close" })}
      </button>
    </dialog>
  );
}
