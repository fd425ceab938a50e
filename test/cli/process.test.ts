// The command as a process: exit code, Ctrl-C, a reader that goes away, output that is whole behind a pipe.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, it } from 'vitest'
import { startCliRig } from './support/cli.ts'
import { testKey } from './support/contract-server.ts'

const rig = await startCliRig()
afterAll(() => rig.close())
const bin = fileURLToPath(new URL('../../packages/cli/bin/belfry.js', import.meta.url))

function start(...argv: readonly string[]) {
  const env = {
    ...process.env,
    XDG_CONFIG_HOME: rig.configHome,
    BELFRY_URL: rig.server.url,
    BELFRY_API_KEY: testKey,
  }
  const child = spawn(process.execPath, [bin, ...argv], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>
  return { child, ended }
}

it('prints all of a long answer into a pipe and ends by itself', async () => {
  for (let index = 0; index < 900; index += 1) rig.server.store.addJob(`job-${index}`)
  const { child, ended } = start('job', 'list', '--limit', '900', '-o', 'json')
  const out = await text(child.stdout)
  expect((JSON.parse(out) as { items: unknown[] }).items).toHaveLength(900)
  expect(await ended).toEqual([0, null])
})

it('ends without a word when its reader goes away', async () => {
  const { child, ended } = start('job', 'list', '--limit', '900', '-o', 'json')
  child.stdout.destroy()
  const words = await text(child.stderr)
  expect(words).toBe('')
  expect(await ended).toEqual([0, null])
})

it('ends a batch without a word when its reader goes away', async () => {
  const cases = fileURLToPath(new URL('../cases/cron.json', import.meta.url))
  const { child, ended } = start('schedule', 'next', '--batch', cases)
  child.stdout.destroy()
  expect(await text(child.stderr)).toBe('')
  expect(await ended).toEqual([0, null])
})

it('leaves at once on Ctrl-C, with 130', async () => {
  const { id } = rig.server.store.addRun()
  const { child, ended } = start('run', 'wait', id)
  await once(child.stderr, 'data')
  child.kill('SIGINT')
  expect(await ended).toEqual([130, null])
})

it('hands on the exit code', async () => {
  const { ended } = start('jbo', 'list')
  expect(await ended).toEqual([2, null])
})
