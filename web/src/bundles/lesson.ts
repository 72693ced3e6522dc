/** lesson.js: what a learner steps through. */

import { calculation } from "../views/calculation/calculation";
import { masks } from "../views/masks/masks";
import { add } from "../views/bundles";
import { positions } from "../views/positions/positions";

add({ calculation, masks, positions });
