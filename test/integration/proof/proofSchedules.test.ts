import { testSchedules } from "../../support/virtual/proofSchedules.ts";

testSchedules(0);
