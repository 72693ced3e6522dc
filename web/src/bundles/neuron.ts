/** neuron.js: inside a head, number by number. */

import { neuron } from "../views/neuron/neuron";
import { add } from "../views/bundles";

add({ neuron });
