import fc from "fast-check";

/**
 * Each run tries the same random values, so that a failure comes from the change. PROPERTY_SEED=2 etc. try others. With
 * PROPERTY_SHRINKS=0 the first failure is reported as it is: looking for a smaller one can take minutes.
 */
fc.configureGlobal({
  seed: Number(process.env["PROPERTY_SEED"] ?? 1),
  endOnFailure: process.env["PROPERTY_SHRINKS"] === "0",
});
