/** The modules that app.js shares with the bundles of views, which are built against them (`scripts/build.mjs`). */

import * as signals from "@preact/signals";
import * as preact from "preact";
import * as preactHooks from "preact/hooks";
import * as preactJsx from "preact/jsx-runtime";
import * as drawBars from "./draw/bars";
import * as drawCanvas from "./draw/canvas";
import * as drawColours from "./draw/colours";
import * as drawNumbers from "./draw/numbers";
import * as drawPaint from "./draw/paint";
import * as drawPalette from "./draw/palette";
import * as drawPool from "./draw/pool";
import * as drawSvg from "./draw/svg";
import * as drawText from "./draw/text";
import * as i18nBlocks from "./i18n/blocks";
import * as i18nI18n from "./i18n/i18n";
import * as shellAccessibleGrid from "./shell/accessibleGrid";
import * as shellFocusDetails from "./shell/focusDetails";
import * as shellHeadMap from "./shell/headMap";
import * as shellAnswerBar from "./shell/answerBar";
import * as shellRunForm from "./shell/runForm";
import * as stateActions from "./state/actions";
import * as stateLabels from "./state/labels";
import * as stateSession from "./state/session";
import * as stateSettings from "./state/settings";
import * as stateState from "./state/state";
import * as stateUseAsync from "./state/useAsync";
import * as traceApi from "./trace/api";
import * as traceHeadPatterns from "./trace/headPatterns";
import * as traceDecoding from "./trace/decoding";
import * as traceDisplay from "./trace/display";
import * as traceMatrix from "./trace/matrix";
import * as traceRowSlice from "./trace/rowSlice";
import * as traceSafetensors from "./trace/safetensors";
import * as traceSource from "./trace/source";
import * as traceTrace from "./trace/trace";
import * as viewsBundles from "./views/bundles";
import * as viewsChoice from "./views/choice";
import * as viewsViewInfo from "./views/viewInfo";
import * as viewsWidth from "./views/width";

export const shared: Readonly<Record<string, object>> = {
  "@preact/signals": signals,
  "preact": preact,
  "preact/hooks": preactHooks,
  "preact/jsx-runtime": preactJsx,
  "draw/bars": drawBars,
  "draw/canvas": drawCanvas,
  "draw/colours": drawColours,
  "draw/numbers": drawNumbers,
  "draw/paint": drawPaint,
  "draw/palette": drawPalette,
  "draw/pool": drawPool,
  "draw/svg": drawSvg,
  "draw/text": drawText,
  "i18n/blocks": i18nBlocks,
  "i18n/i18n": i18nI18n,
  "shell/accessibleGrid": shellAccessibleGrid,
  "shell/focusDetails": shellFocusDetails,
  "shell/headMap": shellHeadMap,
  "shell/answerBar": shellAnswerBar,
  "shell/runForm": shellRunForm,
  "state/actions": stateActions,
  "state/labels": stateLabels,
  "state/session": stateSession,
  "state/settings": stateSettings,
  "state/state": stateState,
  "state/useAsync": stateUseAsync,
  "trace/api": traceApi,
  "trace/headPatterns": traceHeadPatterns,
  "trace/decoding": traceDecoding,
  "trace/display": traceDisplay,
  "trace/matrix": traceMatrix,
  "trace/rowSlice": traceRowSlice,
  "trace/safetensors": traceSafetensors,
  "trace/source": traceSource,
  "trace/trace": traceTrace,
  "views/bundles": viewsBundles,
  "views/choice": viewsChoice,
  "views/viewInfo": viewsViewInfo,
  "views/width": viewsWidth,
};

Object.assign(globalThis, { jumok: shared });
