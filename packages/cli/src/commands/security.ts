/**
 * `belfry security check-target`: whether a server would let a job call a URL, or, for a file of hostile
 * inputs, what becomes of each. It is judged here, by the same code: no server is asked and nothing is sent.
 */
import type { Call, Command } from '../command.ts'
import { exitCodes, UsageError } from '../exit-codes.ts'
import { toJsonLine } from '../output/structured.ts'
import { plain } from '../output/text.ts'
import { given } from './shared.ts'

const form = '{"cases": [{"id": "c1", "area": "ssrf", "input": {"url": "http://127.0.0.1/"}}, …]}'

function casesOf(text: string): readonly unknown[] {
  let file: unknown
  try {
    file = JSON.parse(text)
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : 'unreadable'
    throw new UsageError(`--batch is not valid JSON (${why}); the file is ${form}`)
  }
  const cases = typeof file === 'object' && file !== null && 'cases' in file ? file.cases : file
  if (Array.isArray(cases)) return cases
  throw new UsageError(`--batch has no list "cases"; the file is ${form}`)
}

async function openJudge(call: Call) {
  const { loadConfig, openSecurityJudge } = await call.io.loadServer()
  const { config } = loadConfig({ env: call.io.env, ...given({ file: call.flags.text('config') }) })
  const ranges = {
    allowCidrs: config.egressAllow,
    denyCidrs: config.egressDeny,
    allowPorts: config.egressPorts,
  }
  const classes = {
    internet: config.containerInternet,
    lists: new Map(Object.entries(config.containerEgressLists)),
  }
  return openSecurityJudge({ ...ranges, classes, quotas: config.quotas, nowMs: call.io.now() })
}

async function checkTarget(call: Call): Promise<number | undefined> {
  const url = call.argument('url')
  const text = await call.flags.file('batch')
  if ((url === undefined) === (text === undefined))
    throw new UsageError('say what to check: a URL, or --batch with a file of cases')
  const cases = text === undefined ? [] : casesOf(text)
  const judge = await openJudge(call)
  try {
    for (const each of cases) call.io.stdout.write(`${toJsonLine(await lineOf(each, judge))}\n`)
    return url === undefined ? undefined : sayVerdict(call, url, judge.url(url))
  } finally {
    await judge.close()
  }
}

type Judge = Awaited<ReturnType<typeof openJudge>>
type Judged = ReturnType<Judge['url']>

/** Without an id of its own the line has null, and its place tells whose it is. */
async function lineOf(each: unknown, judge: Judge): Promise<object> {
  if (typeof each !== 'object' || each === null) return { id: null, notApplicable: 'a case is an object' }
  const { id = null, area, input } = each as Readonly<Record<string, unknown>>
  if (typeof area !== 'string') return { id, notApplicable: 'the case has no area' }
  const judged = await judge.judge({ id: String(id), area, input })
  if ('notApplicable' in judged) return { id, notApplicable: judged.notApplicable }
  return { id, outcome: judged.outcome, ...given({ code: judged.code }) }
}

function sayVerdict(call: Call, url: string, judged: Judged): number | undefined {
  const outcome = 'outcome' in judged ? judged.outcome : 'unknown'
  const message = 'outcome' in judged ? (judged.message ?? 'A job may call it.') : ''
  call.printer.value({ url, ...judged }, [`${plain(outcome)}  ${plain(message)}`])
  return outcome === 'allow' ? undefined : exitCodes.failed
}

export const securityCommands: readonly Command[] = [
  {
    noun: 'security',
    verb: 'check-target',
    summary: 'Tell whether a job may call a URL, or judge a file of hostile inputs; nothing is sent',
    details:
      'Judged on this machine by the code of the server, with the settings egressAllow, egressDeny, ' +
      'egressPorts and those of containers as a server here would have them. A name is judged as far as ' +
      'that goes without a resolver: what it leads to is judged again at each call. With --batch, one ' +
      'JSON line a case: its id with the outcome and the code of the error, or why it cannot be judged ' +
      'from here. Exit code 1 for a ' +
      'URL that is refused.',
    arguments: [{ name: 'url', summary: 'A URL as a job would name it', optional: true }],
    flags: [
      { name: 'batch', value: 'file', summary: `A file of cases, ${form}; - for standard input` },
      { name: 'config', value: 'file', summary: 'Configuration file of the server' },
    ],
    effect: 'local',
    examples: [
      { words: 'One URL', command: 'belfry security check-target http://169.254.169.254/' },
      { words: 'A file of cases', command: 'belfry security check-target --batch test/cases/security.json' },
    ],
    run: checkTarget,
  },
]
