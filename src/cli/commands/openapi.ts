import type { Command } from "commander";
import { describeApi } from "../../api/openapi.ts";
import { printJson } from "../output/terminal.ts";

export function register(program: Command): void {
  program
    .command("openapi")
    .description("print the OpenAPI 3.1 document of the API, as served by /openapi.json")
    .action(() => printJson(describeApi()));
}
