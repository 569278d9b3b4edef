import { testSchedules } from "./schedules/scheduledRun.ts";

testSchedules(1);
