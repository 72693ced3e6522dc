/** story.js: what was read, written and answered. */

import { alignment } from "../views/alignment/alignment";
import { explanation } from "../views/explanation/explanation";
import { generation } from "../views/generation/generation";
import { registerViews } from "../views/bundles";

registerViews({ alignment, explanation, generation });
