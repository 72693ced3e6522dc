/** lesson.js: what a learner steps through. */

import { calculation } from "../views/calculation/calculation";
import { masks } from "../views/masks/masks";
import { registerViews } from "../views/bundles";
import { positions } from "../views/positions/positions";

registerViews({ calculation, masks, positions });
