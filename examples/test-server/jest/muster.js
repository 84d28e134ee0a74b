// A cluster for Jest: start() in beforeAll, stop() in afterAll. `MUSTER` names the program where it is not on the PATH.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** Starts a cluster; gives what it said of itself (kubeconfig, url, ca, token, pid) and stop(). */
export async function start(...more) {
  const folder = mkdtempSync(join(tmpdir(), "muster-"));
  const process_ = spawn(
    process.env.MUSTER ?? "muster",
    ["up", "--output", "json", "--exit-with-parent", "--listen", "127.0.0.1:0", "--pod-startup", "0s",
      "--kubeconfig", join(folder, "kubeconfig"), ...more],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  const ended = new Promise((resolve) => process_.once("close", resolve));
  const lines = createInterface({ input: process_.stdout });
  const first = await new Promise((resolve, reject) => {
    lines.once("line", (line) => resolve(JSON.parse(line)));
    process_.once("error", reject);
    ended.then((code) => reject(new Error(`muster ended with ${code}`)));
  });
  if (first.event !== "ready") throw new Error(first.message);
  const stop = async () => {
    process_.kill();
    await ended;
    rmSync(folder, { recursive: true });
  };
  return { ...first, stop };
}
