/** The matrix view: every weight of a head as a cell; pinned heads are side by side. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Canvas } from "../../draw/canvas";
import { css, ink } from "../../draw/colours";
import { rampStep, tone } from "../../draw/paint";
import { shade } from "../../draw/palette";
import { drawnFraction, measure, scale } from "../../state/state";
import { headKey } from "../../state/session";
import { t } from "../../i18n/i18n";
import { Choice, Toggle } from "../choice";
import type { StageProps, View } from "../view";
import "./matrix.css";
import { Panel } from "./panel";
import { displayedHeads, panelSize, shownSize, svg, table } from "./picture";
import { asTable, left, range, RANGES, setViewport, top, zoom } from "./settings";
import { AccessibleTable } from "./accessibleTable";

export const matrix: View = {
  id: "matrix",
  title: { ko: "행렬", en: "matrix" },
  description: {
    ko: "셀 하나가 가중치 하나입니다: 행(쿼리)에서 열(키)로의 어텐션. 빗금은 마스크된 셀입니다.",
    en: "One cell is one weight: the attention of its row (query) to its column (key). Hatched cells are masked.",
  },
  supports: () => true,
  missing: { ko: "", en: "" },
  Stage: Matrix,
  svg,
  table,
};

const ALL = { zoom: 1, x: 0, y: 0 };

function Matrix({ trace }: StageProps) {
  const box = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState({ width: 640, height: 480 });
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setSize({ width: element.clientWidth, height: element.clientHeight }));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    drawnFraction.value = 1;
    return () => {
      drawnFraction.value = null;
    };
  }, []);
  const heads = displayedHeads();
  [shownSize[0], shownSize[1]] = [size.width, size.height];
  const { across, width, height } = panelSize(heads.length, shownSize);
  return (
    <div class="matrix">
      <div class="choices">
        <Legend />
        {measure.value === "weights" && (
          <Choice title={{ ko: "색상 범위", en: "color range" }} of={range} options={RANGES} />
        )}
        <span class="matrix-zoom" role="group" aria-label={t({ ko: "확대/축소", en: "zoom" })}>
          <button
            type="button"
            aria-label={t({ ko: "축소", en: "zoom out" })}
            onClick={() => setViewport({ ...ALL, zoom: Math.max(1, zoom.value / 1.5) })}
          >
            −
          </button>
          <button
            type="button"
            aria-label={t({ ko: "확대", en: "zoom in" })}
            onClick={() => setViewport({ zoom: zoom.value * 1.5, x: left.value, y: top.value })}
          >
            +
          </button>
          {zoom.value > 1 && (
            <button type="button" onClick={() => setViewport(ALL)}>
              {t({ ko: "전체", en: "all" })}
            </button>
          )}
        </span>
        <Toggle title={{ ko: "표로 보기", en: "as a table" }} of={asTable} />
      </div>
      {asTable.value && <AccessibleTable trace={trace} location={heads[0]} />}
      <div class="matrix-panels" ref={box} style={{ gridTemplateColumns: `repeat(${across}, minmax(0, 1fr))` }}>
        {heads.map((head, i) => (
          <Panel
            key={`${head.sequence}.${headKey(head)}`}
            trace={trace}
            location={head}
            number={heads.length > 1 ? i : null}
            width={width}
            height={height}
          />
        ))}
      </div>
    </div>
  );
}

/** The legend of the colours. */
function Legend() {
  const names = {
    sqrt: { ko: "제곱근", en: "square root" },
    linear: { ko: "선형", en: "linear" },
    log: { ko: "로그", en: "log" },
  };
  const maxText = measure.value === "values" || range.value === "max" ? t({ ko: "최대", en: "max" }) : "1";
  return (
    <span class="matrix-legend">
      0
      <Canvas
        width={96}
        height={12}
        label={t({
          ko: `색상: 0에서 ${maxText}까지, ${names[scale.value].ko} 스케일`,
          en: `colors: 0 to ${maxText}, ${names[scale.value].en} scale`,
        })}
        draw={(g) => {
          for (let x = 0; x < 96; x++) {
            g.fillStyle = css(ink(shade.value), rampStep(tone(scale.value)(x / 95)));
            g.fillRect(x, 0, 1, 12);
          }
        }}
      />
      {maxText} <small>({t(names[scale.value])})</small>
    </span>
  );
}
