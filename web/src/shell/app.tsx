/** The page: header, map, stage, inspector and token strip around one trace. */

import { busy, sessionError, liveModel, currentTrace } from "../state/session";
import { t } from "../i18n/i18n";
import { Header } from "./header";
import { Help } from "./help";
import { Inspector } from "./inspector";
import { openDrawer } from "./keyboard";
import { HeadMap } from "./headMap";
import "./page.css";
import { TokenStrip } from "./tokenStrip";
import { Stage, Tabs } from "./tabs";

export function App() {
  const trace = currentTrace.value;
  return (
    <div class="page" data-drawer={openDrawer.value ?? ""} aria-busy={busy.value}>
      <header class="header" data-role="header">
        <Header />
      </header>
      <aside class="map" data-role="map" aria-label={t({ ko: "지도: 층과 머리", en: "map: layers and heads" })}>
        <CloseDrawer />
        {trace && <HeadMap trace={trace} />}
      </aside>
      <main class="main">
        {sessionError.value && (
          <p class="failure" role="alert" data-role="failure">
            {sessionError.value}
          </p>
        )}
        <Tabs trace={trace} />
        {trace ? <Stage trace={trace} /> : <EmptyPage />}
      </main>
      <aside
        class="inspector"
        data-role="inspector"
        tabIndex={0}
        aria-label={t({ ko: "자세히: 정확한 수", en: "inspector: exact numbers" })}
      >
        <CloseDrawer />
        {trace && <Inspector trace={trace} />}
      </aside>
      <footer class="strip" data-role="strip" aria-label={t({ ko: "낱말 띠", en: "token strip" })}>
        {trace && <TokenStrip trace={trace} />}
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

/** Before the first trace is there. */
function EmptyPage() {
  return (
    <p class="waiting" role="status">
      {busy.value
        ? t({ ko: "기록을 읽는 중입니다…", en: "The trace is being read…" })
        : sessionError.value
          ? t({ ko: "보여 줄 것이 없습니다.", en: "There is nothing to show." })
          : liveModel.value
            ? t({
                ko: "위에 글을 쓰고 실행하면, 모델이 그것을 어떻게 읽는지 보입니다.",
                en: "Write a text above and run: you will see how the model reads it.",
              })
            : t({ ko: "기록이 없습니다.", en: "There is no trace." })}
    </p>
  );
}
