/** reading.js: the views of inputs and outputs (alignment, circuit, explanation, generation). */

import { alignment } from "../views/alignment/alignment";
import { circuit } from "../views/circuit/circuit";
import { explanation } from "../views/explanation/explanation";
import { generation } from "../views/generation/generation";
import { registerViews } from "../views/bundles";

registerViews({ alignment, circuit, explanation, generation });
