/**
 * `belfry doctor`: what a person runs when something is off. Looks at this machine, at the database that a
 * server here would use, and at the server that this command line speaks to; says what is wrong and what to
 * do. Changes nothing, and every look has its limit.
 */
import type { Diagnosis } from '@belfry/server'
import type { Call, Command } from '../command.ts'
import { exitCodes } from '../exit-codes.ts'
import type { Tone } from '../output/paint.ts'
import { plain } from '../output/text.ts'
import { examineApi } from './doctor-api.ts'
import { examineContexts } from './doctor-contexts.ts'
import { given } from './shared.ts'

const oldestNode = [22, 18] as const

function examineNode(): Diagnosis {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  const fits = major > oldestNode[0] || (major === oldestNode[0] && minor >= oldestNode[1])
  const message = `Node ${process.versions.node} on ${process.platform} ${process.arch}.`
  const fix = fits
    ? null
    : `Belfry needs Node ${oldestNode.join('.')} or later; Node 24 is what it is made with.`
  return { name: 'node', status: fits ? 'ok' : 'fail', message, fix }
}

async function examineServerSide(call: Call): Promise<readonly Diagnosis[]> {
  const module = await call.io.loadServer()
  return module.examineMachine({
    flags: given({ dataDir: call.flags.text('data-dir') }),
    ...given({ configFile: call.flags.text('config') }),
    env: call.io.env,
  })
}

const tones: Readonly<Record<Diagnosis['status'], Tone>> = { ok: 'good', warn: 'busy', fail: 'bad' }

async function doctor(call: Call): Promise<number> {
  const [machine, contexts, api] = await Promise.all([
    examineServerSide(call),
    examineContexts(call),
    examineApi(call),
  ])
  const checks = [examineNode(), ...machine, contexts, ...api]
  const worst = (['fail', 'warn', 'ok'] as const).find((status) =>
    checks.some((check) => check.status === status),
  )
  const width = Math.max(...checks.map(({ name }) => name.length))
  const lines = checks.flatMap(({ name, status, message, fix }) => {
    const mark = call.printer.paint(status.padEnd(4), tones[status])
    const head = `${mark}  ${name.padEnd(width)}  ${words(message)}`
    return fix === null ? [head] : [head, `${' '.repeat(width + 8)}fix: ${words(fix)}`]
  })
  call.printer.value({ status: worst ?? 'ok', checks }, lines)
  return worst === 'fail' ? exitCodes.failed : exitCodes.ok
}

/** On one line, and harmless. */
const words = (text: string): string => plain(text.replace(/\s*\n\s*/g, ' '))

export const doctorCommand: Command = {
  noun: 'doctor',
  summary: 'Find out what is wrong: this machine, its database, the server; changes nothing',
  details:
    'Each line is ok, warn or fail, with what to do. Exit code 1 where something fails. The database is ' +
    'that of a server here (DATABASE_URL, else the embedded one); the server is that of the context.',
  flags: [
    { name: 'config', value: 'path', summary: 'Configuration file of the server (else BELFRY_CONFIG)' },
    { name: 'data-dir', value: 'path', summary: 'Data of the embedded Postgres' },
  ],
  effect: 'read',
  examples: [
    { words: 'Something is off', command: 'belfry doctor' },
    { words: 'Before a server starts, in a script', command: 'belfry doctor --config belfry.yaml -o json' },
  ],
  run: doctor,
}
