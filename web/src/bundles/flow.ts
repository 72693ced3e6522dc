/** flow.js: the whole model in one picture. */

import { flow } from "../views/flow/flow";
import { registerViews } from "../views/bundles";

registerViews({ flow });
