// The kinds of simulated worlds: which processes live in one, and what there is to do. Small enough that
// thousands of them pass in minutes; which kind a seed makes follows from the seed.
import type { Chance } from './chance.ts'
import type { CarrierPlan, FaultPlan, Strike } from './faults.ts'
import type { Role } from './roles.ts'
import { times } from './roles.ts'

export const kinds = [
  'timers',
  'runs',
  'announced',
  'dependents',
  'workflows',
  'limits',
  'everything',
] as const
export type WorldKind = (typeof kinds)[number]

/** Those that cost more come more seldom. */
const drawn: readonly WorldKind[] = [
  ...kinds,
  'timers',
  'timers',
  'runs',
  'runs',
  'runs',
  'announced',
  'dependents',
  'workflows',
  'workflows',
  'limits',
]
export const drawKind = (chance: Chance): WorldKind => chance.pick(drawn)

export interface Shape {
  readonly nodes: readonly { readonly name: string; readonly roles: readonly Role[] }[]
  readonly schedules: number
  readonly runs: number
  readonly chains: number
  readonly workflows: number
  readonly limited: boolean
  /** A carrier announces runs. */
  readonly announced: boolean
  /** From the end of the faults until all must be over. */
  readonly settleMs: number
  /** How late something may begin where nothing goes wrong, or only with the carrier. */
  readonly calmLateMs: number
}

/** When the last planned time is due, after the beginning. */
export const loadMs = 4_000
/** No fault begins later, after the beginning. */
export const faultsMs = 5_500

/** A queue is claimed directly once a second; a worker that hears nothing asks up to a fifth later. */
const directMs = 1_250
const rescueAllMs = 2 * times.leaseMs + 4 * times.rescueMs + times.termMs + times.maxPollMs
/** A resolver that heard nothing of what was told looks for it once a minute. */
const mendMs = 65_000

export function shapeOf(kind: WorldKind, chance: Chance): Shape {
  const scheduler = (name: string, ...more: Role[]) => ({ name, roles: ['scheduler', ...more] as const })
  const worker = (name: string, ...more: Role[]) => ({ name, roles: ['worker', ...more] as const })
  const none = {
    schedules: 0,
    runs: 0,
    chains: 0,
    workflows: 0,
    limited: false,
    announced: false,
    settleMs: rescueAllMs + 30_000,
    calmLateMs: 1_500,
  }
  switch (kind) {
    case 'timers':
      return { ...none, nodes: [scheduler('s1'), scheduler('s2'), worker('w1')], schedules: 3, runs: 2 }
    case 'runs':
      return { ...none, nodes: [scheduler('s1'), worker('w1'), worker('w2'), worker('w3')], runs: 9 }
    case 'announced': {
      const nodes = [scheduler('s1'), scheduler('s2'), worker('w1'), worker('w2')]
      return { ...none, nodes, schedules: 1, runs: 7, announced: true, calmLateMs: directMs }
    }
    case 'dependents': {
      const nodes = [scheduler('s1', 'resolver'), { name: 'r1', roles: ['resolver'] as const }, worker('w1')]
      return { ...none, nodes, chains: 2, settleMs: mendMs + rescueAllMs }
    }
    case 'workflows': {
      const nodes = [scheduler('s1', 'resolver'), { name: 'r1', roles: ['resolver'] as const }, worker('w1')]
      return { ...none, nodes, workflows: 1, settleMs: mendMs + rescueAllMs }
    }
    case 'limits': {
      const nodes = [scheduler('s1', 'gatekeeper'), worker('w1', 'gatekeeper'), worker('w2')]
      return { ...none, nodes, runs: 6, schedules: 1, limited: true, settleMs: rescueAllMs + 60_000 }
    }
    case 'everything': {
      const all = ['scheduler', 'worker', 'resolver', 'gatekeeper'] as const
      const nodes = ['n1', 'n2'].map((name) => ({ name, roles: all }))
      return {
        ...none,
        nodes,
        schedules: 1,
        runs: 3,
        chains: 1,
        workflows: 1,
        limited: true,
        announced: chance.hit(0.5),
        settleMs: mendMs + rescueAllMs,
      }
    }
  }
}

/** One world in eight is calm: there lateness is held to what it is without faults. */
export function drawFaults(chance: Chance, shape: Shape): FaultPlan {
  const calm = chance.hit(1 / 8)
  const strikes = calm ? [] : Array.from({ length: 1 + chance.below(4) }, () => drawStrike(chance, shape))
  const lossy = !calm && chance.hit(0.5)
  const slow = !calm && chance.hit(0.5)
  return {
    calm,
    strikes,
    lossy: lossy ? chance.between(0.01, 0.06) : 0,
    slow: slow ? chance.between(0.02, 0.3) : 0,
    slowMs: slow ? chance.pick([50, 500, 5_000]) : 0,
    hintLoss: calm ? 0 : chance.pick([0, 0.1, 0.5, 1]),
    hintMs: calm ? 0 : chance.pick([0, 50, 2_000]),
    endMs: calm ? 0 : faultsMs,
    carrier: drawCarrier(chance.fork('carrier')),
  }
}

export const goodCarrier: CarrierPlan = {
  loss: 0,
  doubling: 0,
  lateMs: 0,
  failing: 0,
  refusal: 0,
  forged: 0,
  away: undefined,
  endMs: 0,
}

function drawCarrier(chance: Chance): CarrierPlan {
  if (chance.hit(1 / 5)) return goodCarrier
  const fromMs = chance.between(0, loadMs)
  const untilMs = Math.min(faultsMs, fromMs + chance.pick([200, 1_000, 3_000]))
  return {
    loss: chance.pick([0, 0.1, 0.5, 0.5, 1]),
    doubling: chance.pick([0, 0.2]),
    lateMs: chance.pick([0, 50, 2_000]),
    failing: chance.pick([0, 0, 0.05, 0.3]),
    refusal: chance.pick([0, 0, 0.05]),
    forged: chance.pick([0, 2, 6]),
    away: chance.hit(0.3) ? { fromMs, untilMs, forgets: chance.hit(0.5) } : undefined,
    endMs: faultsMs,
  }
}

/** What a strike waits for: any step of the node, or one of those at which something is at stake. */
const named: Readonly<Record<Role, readonly string[]>> = {
  scheduler: ['', '', 'fire', 'fire', 'release', 'leadership', 'take_shards', 'rescue', 'commit'],
  worker: ['', '', 'call', 'call', 'claim_runs', 'complete', 'success', 'renew_session', 'commit'],
  resolver: ['', 'commit', 'take_events', 'settle', 'workflow_save', 'start_runs'],
  gatekeeper: ['', 'gate', 'commit'],
}

/** Besides, where runs are announced. */
const ofCarrier: Partial<Readonly<Record<Role, readonly string[]>>> = {
  scheduler: ['carrier_announce'],
  worker: ['carrier_take', 'carrier_settle', 'claim_announced'],
}

function drawStrike(chance: Chance, { nodes, announced }: Shape): Strike {
  const { name, roles } = chance.pick(nodes)
  const role = chance.pick(roles)
  const which = chance.pick([...named[role], ...((announced ? ofCarrier[role] : undefined) ?? [])])
  return {
    node: name,
    lateMs: chance.pick([0, 0, 0, chance.between(0, 1_000)]),
    what: chance.pick(['die', 'die', 'pause', 'pause', 'pause', 'stop']),
    named: which,
    step: which === '' ? chance.below(60) : chance.below(4),
    when: chance.pick(['before', 'after']),
    forMs: chance.pick([200, 3_000, 6_000, 7_000]),
  }
}
