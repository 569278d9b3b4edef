// A program: reads `address` on `count` connections again and again, and prints the status of each answer.
import { Agent, get } from "node:http";

const [address, count] = process.argv.slice(2);
const agent = new Agent({ keepAlive: true, maxSockets: Number(count) });

function readAgain() {
  get(address, { agent }, (response) => {
    response.resume();
    response.once("end", () => {
      process.stdout.write(`${response.statusCode}\n`);
      readAgain();
    });
  }).once("error", readAgain);
}
for (let reader = 0; reader < Number(count); reader += 1) readAgain();
