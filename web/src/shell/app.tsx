/** The page: header, head map, stage, inspector and token strip of one trace. */

import { busy, currentTrace, liveModel, sessionError } from "../state/session";
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
      <aside class="map" data-role="map" aria-label={t({ ko: "헤드 맵: 레이어와 헤드", en: "head map: layers and heads" })}>
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
        aria-label={t({ ko: "상세 정보: 정확한 수치", en: "inspector: exact numbers" })}
      >
        <CloseDrawer />
        {trace && <Inspector trace={trace} />}
      </aside>
      <footer class="strip" data-role="strip" aria-label={t({ ko: "토큰 목록", en: "token strip" })}>
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

/** Shown until the first trace is loaded. */
function EmptyPage() {
  return (
    <p class="waiting" role="status">
      {busy.value
        ? t({ ko: "트레이스를 읽는 중입니다…", en: "Loading the trace…" })
        : sessionError.value
          ? t({ ko: "표시할 트레이스가 없습니다.", en: "There is no trace to show." })
          : liveModel.value
            ? t({
                ko: "위에 텍스트를 입력하고 실행하면 모델의 어텐션을 볼 수 있습니다.",
                en: "Enter a text above and run the model to see its attention.",
              })
            : t({ ko: "트레이스가 없습니다.", en: "There is no trace." })}
    </p>
  );
}
