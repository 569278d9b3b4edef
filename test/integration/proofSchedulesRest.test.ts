import { testSchedules } from "../support/proofSchedules.ts";

testSchedules(1);
