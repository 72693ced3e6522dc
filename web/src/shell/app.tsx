/** The page: header, head map, stage, inspector and token strip of one trace. */

import { busy, currentTrace, liveModel, sessionError } from "../state/session";
import { refused } from "../state/settings";
import { t } from "../i18n/i18n";
import { AnswerBar, Examples } from "./answerBar";
import { Header } from "./header";
import { Help } from "./help";
import { Inspector } from "./inspector";
import { openDrawer } from "./keyboard";
import { HeadMap } from "./headMap";
import { NoteBar } from "./notes";
import "./page.css";
import { TokenStrip } from "./tokenStrip";
import { Stage, Tabs } from "./tabs";
import { refusedEntries, unknownView } from "./refusedLink";

export function App() {
  const trace = currentTrace.value;
  return (
    <div class="page" data-drawer={openDrawer.value ?? ""} aria-busy={busy.value}>
      <header class="header" data-role="header">
        <Header />
      </header>
      <section class="question" data-role="question" aria-label={t({ ko: "입력과 답", en: "input and answer" })}>
        <AnswerBar />
      </section>
      <aside class="map" data-role="map" aria-label={t({ ko: "헤드 맵: 레이어와 헤드", en: "head map: layers and heads" })}>
        <CloseDrawer />
        {trace && <HeadMap trace={trace} />}
      </aside>
      <main class="main">
        {(sessionError.value || unknownView.value) && (
          <p class="failure" role="alert" data-role="failure">
            {sessionError.value || unknownView.value}
          </p>
        )}
        {refusedEntries.value && (
          <p class="failure" role="alert">
            {refusedEntries.value}{" "}
            <button type="button" onClick={() => (refused.value = [])}>
              {t({ ko: "닫기", en: "close" })}
            </button>
          </p>
        )}
        {(trace || !liveModel.value) && <Tabs trace={trace} />}
        {trace ? <Stage trace={trace} /> : <EmptyPage />}
      </main>
      <aside
        class="inspector"
        data-role="inspector"
        tabIndex={0}
        aria-label={t({ ko: "상세 정보: 정확한 수치", en: "inspector: exact numbers" })}
      >
        <CloseDrawer />
        {trace && <Inspector trace={trace} />}
      </aside>
      <footer class="strip" data-role="strip" aria-label={t({ ko: "토큰 목록", en: "token strip" })}>
        {trace && <TokenStrip trace={trace} />}
        {trace && <NoteBar trace={trace} />}
      </footer>
      <Help />
    </div>
  );
}

function CloseDrawer() {
  return (
    <button type="button" class="narrow" onClick={() => (openDrawer.value = null)}>
      {t({ ko: "닫기", en: "close" })}
    </button>
  );
}

/** Shown until the first trace is loaded. */
function EmptyPage() {
  if (!busy.value && !sessionError.value && liveModel.value)
    return (
      <div class="invitation">
        <h2>{t({ ko: "위에 텍스트를 입력하고 Enter를 누르세요", en: "Type a text above and press Enter" })}</h2>
        <p>
          {t({
            ko: "모델의 답과, 그 답이 나오기까지 각 레이어에서 계산한 값을 볼 수 있습니다. 예문을 클릭해도 됩니다.",
            en: "The page shows the answer of the model and what each layer computed for it. Or click an example.",
          })}
        </p>
        <Examples />
      </div>
    );
  return (
    <p class="waiting" role="status">
      {busy.value
        ? t({ ko: "트레이스를 읽는 중입니다…", en: "Loading the trace…" })
        : sessionError.value
          ? t({ ko: "표시할 트레이스가 없습니다.", en: "There is no trace to show." })
          : t({ ko: "트레이스가 없습니다.", en: "There is no trace." })}
    </p>
  );
}
