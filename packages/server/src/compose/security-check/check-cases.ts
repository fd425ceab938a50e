/**
 * `belfry security check-target`: judges hostile inputs by the code that a server judges them by, without a
 * server, a database or the network. What kind a case is shows in its area and its fields; what a case says
 * about its own outcome is not looked at.
 */
import { BelfryError } from '@belfry/contract'
import { openZoneSource } from '../../adapters/zones/zone-source.ts'
import type { EgressRanges } from '../../domain/egress/egress-policy.ts'
import { quotaDefaults } from '../../config/quota-fields.ts'
import { type Input, isInput, type Judged, refused } from './judged.ts'
import {
  isBodyCase,
  judgeBody,
  judgePath,
  judgeToken,
  openRequestRig,
  type RequestRig,
} from './request-cases.ts'
import {
  isJobCase,
  judgeJob,
  judgeRunAt,
  judgeSchedule,
  judgeSignature,
  judgeTemplate,
  judgeWorkflow,
  type Times,
} from './said-cases.ts'
import {
  type ContainerClasses,
  judgeContainer,
  judgeHeader,
  judgeLambda,
  judgeLookups,
  judgeTargetUrl,
  openTargetRig,
  type TargetRig,
} from './target-cases.ts'

export type { Judged } from './judged.ts'

export interface SecurityCase {
  readonly id: string
  readonly area: string
  readonly input: unknown
}

export interface SecurityJudge {
  /** Never rejects for what a case says. */
  judge(one: SecurityCase): Promise<Judged>
  url(url: string): Judged
  close(): Promise<void>
}

interface Rigs {
  readonly target: TargetRig
  readonly request: RequestRig
  readonly times: Times
}

/** Of a tenant whose plan says nothing of seconds: what operators of other people's jobs usually set. */
const usualIntervalMs = 60_000

export interface JudgeOptions extends EgressRanges {
  /** The setting `quotas`. */
  readonly quotas: readonly string[]
  readonly nowMs: number
  readonly classes: ContainerClasses
}

/** What the operator opened, closed and bounded is as in the configuration. */
export async function openSecurityJudge(options: JudgeOptions): Promise<SecurityJudge> {
  const { quotas, nowMs, classes, ...ranges } = options
  const target = openTargetRig(ranges, classes)
  const request = await openRequestRig()
  const leastIntervalMs = quotaDefaults(quotas).scheduleIntervalMs ?? usualIntervalMs
  const rigs: Rigs = { target, request, times: { zones: openZoneSource(), nowMs, leastIntervalMs } }
  return {
    url: (url) => judgeTargetUrl(url, target),
    async judge({ id, area, input }) {
      if (!isInput(input)) return { notApplicable: 'the case has no input' }
      try {
        const judged = await judgeByArea(id, area, input, rigs)
        return judged ?? { notApplicable: reasons.get(area) ?? needsServer }
      } catch (error) {
        return thrown(error)
      }
    },
    async close() {
      await target.egress.close()
      await request.close()
    },
  }
}

/** One case that cannot be judged must not cost those behind it. */
function thrown(error: unknown): Judged {
  if (error instanceof BelfryError) return refused('refuse_400', error.code, error.message)
  return {
    notApplicable: `it could not be judged: ${error instanceof Error ? error.message : String(error)}`,
  }
}

const needsServer = 'needs a server with data'

/** Why the cases of an area are not judged from here. */
const reasons: ReadonlyMap<string, string> = new Map([
  ['archive', 'Belfry takes no archives'],
  ['audit', 'needs a database: the tests of the audit log show it'],
  ['log', 'needs a run that logs: the tests of logs and of the command line show it'],
  ['output', 'needs a run: the tests of handlers show it'],
  ['response', 'needs a target that answers: the tests of the HTTP handler show it'],
  ['sandbox', 'needs a container engine: the tests of containers show it'],
  ['secret', 'needs a database: the tests of secrets show it'],
  ['tenant', 'needs a database with two tenants: the tests of tenancy show it'],
  ['ui', 'needs a browser: the tests of the pages show it'],
])

function judgeByArea(
  id: string,
  area: string,
  input: Input,
  { target, request, times }: Rigs,
): Judged | Promise<Judged> | undefined {
  switch (area) {
    case 'ssrf':
      return 'url' in input ? judgeTargetUrl(input['url'], target) : undefined
    case 'dns':
      return judgeLookups(input, target)
    case 'header':
      return judgeHeader(input, target)
    case 'container':
      return judgeContainer(input, target)
    case 'lambda':
      return judgeLambda(input)
    case 'signature':
      return judgeSignature(input)
    case 'template':
      return judgeTemplate(input)
    case 'token':
      return judgeToken(input, id, request)
    case 'path': {
      const name = Object.values(input).find((value) => typeof value === 'string')
      return typeof name === 'string' ? judgePath(name, request) : undefined
    }
    case 'limit':
      return judgeLimit(input, request, times)
    default:
      return undefined
  }
}

function judgeLimit(input: Input, request: RequestRig, times: Times): Judged | Promise<Judged> | undefined {
  if ('cron' in input || 'timeZone' in input || 'zone' in input) return judgeSchedule(input, times)
  if ('runAt' in input) return judgeRunAt(input['runAt'])
  if ('dag' in input) return judgeWorkflow(input['dag'])
  if (isBodyCase(input)) return judgeBody(input, request)
  if (isJobCase(input)) return judgeJob(input)
  if ('filter' in input) return { notApplicable: 'Belfry takes no regular expressions to look for things' }
  return undefined
}
