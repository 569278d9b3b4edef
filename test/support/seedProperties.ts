import fc from "fast-check";

/** Each run tries the same random values, so that what fails is the change. PROPERTY_SEED=2 and so on try others. */
fc.configureGlobal({ seed: Number(process.env["PROPERTY_SEED"] ?? 1) });
