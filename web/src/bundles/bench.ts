/** bench.js: the views that compare (two runs, texts or heads; all heads). */

import { compareView } from "../views/compare/compare";
import { mapView } from "../views/map/map";
import { registerViews } from "../views/bundles";

registerViews({ compare: compareView, heads: mapView });
