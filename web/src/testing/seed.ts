/** A fixed seed: a failing property fails everywhere. */

import { configureGlobal } from "fast-check";

configureGlobal({ seed: 20170612 });
