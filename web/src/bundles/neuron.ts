/** neuron.js: inside a head, number by number. */

import { neuron } from "../views/neuron/neuron";
import { registerViews } from "../views/bundles";

registerViews({ neuron });
