/** neuron.js: the computation of one attention weight, number by number. */

import { neuron } from "../views/neuron/neuron";
import { registerViews } from "../views/bundles";

registerViews({ neuron });
