/** What app.js shares with the scripts of parts: they are built against these modules (`scripts/build.mjs`). */

import * as signals from "@preact/signals";
import * as preact from "preact";
import * as preactHooks from "preact/hooks";
import * as preactJsx from "preact/jsx-runtime";
import * as drawBars from "./draw/bars";
import * as drawCanvas from "./draw/canvas";
import * as drawColours from "./draw/colours";
import * as drawPaint from "./draw/paint";
import * as drawPalette from "./draw/palette";
import * as drawPool from "./draw/pool";
import * as drawSvg from "./draw/svg";
import * as drawText from "./draw/text";
import * as shellGrid from "./shell/grid";
import * as shellLooking from "./shell/looking";
import * as stateDrawn from "./state/drawn";
import * as stateLabels from "./state/labels";
import * as stateLoaded from "./state/loaded";
import * as stateMoves from "./state/moves";
import * as stateOpen from "./state/open";
import * as stateSettings from "./state/settings";
import * as stateState from "./state/state";
import * as traceMatrix from "./trace/matrix";
import * as traceRows from "./trace/rows";
import * as traceShown from "./trace/shown";
import * as viewsAbouts from "./views/abouts";
import * as viewsChoice from "./views/choice";
import * as viewsParts from "./views/parts";
import * as viewsWidth from "./views/width";
import * as wordsBlocks from "./words/blocks";
import * as wordsWords from "./words/words";

export const shared: Readonly<Record<string, object>> = {
  "@preact/signals": signals,
  "preact": preact,
  "preact/hooks": preactHooks,
  "preact/jsx-runtime": preactJsx,
  "draw/bars": drawBars,
  "draw/canvas": drawCanvas,
  "draw/colours": drawColours,
  "draw/paint": drawPaint,
  "draw/palette": drawPalette,
  "draw/pool": drawPool,
  "draw/svg": drawSvg,
  "draw/text": drawText,
  "shell/grid": shellGrid,
  "shell/looking": shellLooking,
  "state/drawn": stateDrawn,
  "state/labels": stateLabels,
  "state/loaded": stateLoaded,
  "state/moves": stateMoves,
  "state/open": stateOpen,
  "state/settings": stateSettings,
  "state/state": stateState,
  "trace/matrix": traceMatrix,
  "trace/rows": traceRows,
  "trace/shown": traceShown,
  "views/abouts": viewsAbouts,
  "views/choice": viewsChoice,
  "views/parts": viewsParts,
  "views/width": viewsWidth,
  "words/blocks": wordsBlocks,
  "words/words": wordsWords,
};

Object.assign(globalThis, { jumok: shared });
