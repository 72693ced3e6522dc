/** The styles of all views: app.css is one file, so the bundles contain no styles. */

import "./alignment/alignment.css";
import "./calculation/calculation.css";
import "./calculation/numberGrid.css";
import "./choice.css";
import "./explanation/explanation.css";
import "./generation/generation.css";
import "./masks/masks.css";
import "./neuron/neuron.css";
import "./positions/positions.css";
