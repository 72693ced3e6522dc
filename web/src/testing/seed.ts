/** The same examples on every run: a property that fails here fails everywhere. */

import { configureGlobal } from "fast-check";

configureGlobal({ seed: 20170612 });
