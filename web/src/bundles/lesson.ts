/** lesson.js: the views of the lesson (calculation, masks, positions). */

import { calculation } from "../views/calculation/calculation";
import { masks } from "../views/masks/masks";
import { registerViews } from "../views/bundles";
import { positions } from "../views/positions/positions";

registerViews({ calculation, masks, positions });
