import type { Command } from "commander";
import { describeApi } from "../../report/openapi.ts";
import { printJson } from "../terminal.ts";

export function addOpenapiCommand(program: Command): void {
  program
    .command("openapi")
    .description("print the OpenAPI 3.1 document of the API, as /openapi.json serves it")
    .action(() => printJson(describeApi()));
}
