/** reading.js: the views of inputs and outputs (alignment, generation, explanation). */

import { alignment } from "../views/alignment/alignment";
import { explanation } from "../views/explanation/explanation";
import { generation } from "../views/generation/generation";
import { registerViews } from "../views/bundles";

registerViews({ alignment, explanation, generation });
