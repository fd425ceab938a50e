// The carrier of announcements of a simulated world, in the place of Kafka and SQS (ports/announcements.ts):
// messages that are lost, doubled, late, out of order, refused, or written by somebody else; requests whose
// answer is lost; a time in which it is away, and may forget all it had. What a process took and did not
// settle goes to others after a while, whether that process is dead or only slow, or is lost with it.
import type {
  Announcement,
  AnnouncementInbox,
  Announcements,
  TakenAnnouncement,
} from '../../../packages/server/src/ports/announcements.ts'
import { CarrierAway } from '../../../packages/server/src/ports/announcements.ts'
import type { Chance } from './chance.ts'
import type { CarrierPlan, Faults } from './faults.ts'
import type { SimNode } from './node.ts'
import type { World } from './world.ts'

export interface Carrier {
  /** As one process sees it. */
  readonly join: (node: SimNode) => Announcements
}

/** Of a request that goes well. */
const usualMs = 8
/** After so long what was taken and not settled goes to others. */
const leastHeldMs = 2_000
const mostHeldMs = 4_000
/** Until a process sees that the carrier is away, or back. */
const mostNoticeMs = 600

interface Message {
  readonly announcement: Announcement
  /** Whose it is now; undefined: it waits for somebody. */
  holder: SimNode | undefined
  /** Of those that took it, so that an old receipt settles nothing. */
  turn: number
}

interface Receipt {
  readonly message: Message
  readonly turn: number
}

interface State {
  readonly world: World
  readonly faults: Faults
  readonly plan: CarrierPlan
  readonly chance: Chance
  /** In the order in which they came. */
  readonly messages: Set<Message>
  readonly arrivals: Set<() => void>
}

export function createCarrier(world: World, faults: Faults, chance: Chance): Carrier {
  const plan = faults.plan.carrier
  const state: State = { world, faults, plan, chance, messages: new Set(), arrivals: new Set() }
  const { away } = plan
  if (away?.forgets === true) world.agenda.in(away.fromMs, () => state.messages.clear())
  for (let count = 0; count < plan.forged; count++) {
    world.agenda.in(chance.between(0, plan.endMs), () => forge(state))
  }
  return { join: (node) => joined(state, node) }
}

const isOver = ({ plan, world }: State): boolean => world.agenda.passedMs() >= plan.endMs

function isAway({ plan: { away }, world }: State): boolean {
  const nowMs = world.agenda.passedMs()
  return away !== undefined && nowMs >= away.fromMs && nowMs < away.untilMs
}

function joined(state: State, node: SimNode): Announcements {
  const { chance, plan, world } = state
  const [lostMs, foundMs] = [chance.between(0, mostNoticeMs), chance.between(0, mostNoticeMs)]

  /** What the process knows of it: nothing of a time away that was over before it was noticed. */
  function seen(): 'up' | 'away' | 'back' {
    const nowMs = world.agenda.passedMs()
    const { away } = plan
    if (away === undefined || away.fromMs + lostMs >= away.untilMs) return 'up'
    if (nowMs < away.fromMs + lostMs) return 'up'
    return nowMs < away.untilMs + foundMs ? 'away' : 'back'
  }

  return {
    get up() {
      return seen() !== 'away'
    },
    get generation() {
      return seen() === 'back' ? 1 : 0
    },
    async announce(announcements) {
      const refused = !isOver(state) && chance.hit(plan.refusal)
      await ask(state, node, 'carrier_announce', () => {
        if (refused) return
        for (const announcement of announcements) send(state, announcement)
      })
      return { refused: refused ? [...new Set(announcements.map(({ queue }) => queue))] : [] }
    },
    open: () => openInbox(state, node, () => seen() !== 'away'),
  }
}

/** One request of a process: lost on the way, or its answer, where the plan says so. */
function ask<Result>(state: State, node: SimNode, name: string, work: () => Result): Promise<Result> {
  const { chance, faults, plan, world } = state
  const { promise, resolve, reject } = Promise.withResolvers<Result>()
  if (node.isDead()) return promise
  const step = { name, inside: false }
  const fails = !isOver(state) && chance.hit(plan.failing)
  const answerLost = fails && chance.hit(0.5)
  const fail = (): void => reject(new CarrierAway('The carrier of this world does not answer.'))
  node.in(chance.between(0, usualMs), () => {
    if (faults.strikes(node, step, 'before')) return
    if (isAway(state) || (fails && !answerLost)) return void node.in(usualMs, fail)
    const result = work()
    world.note(node.name, `${name}${answerLost ? ' (answer lost)' : ''}`)
    if (faults.strikes(node, step, 'after')) return
    node.in(chance.between(0, usualMs), () => (answerLost ? fail() : resolve(result)))
  })
  return promise
}

function send(state: State, announcement: Announcement): void {
  const { chance, plan, world } = state
  const calm = isOver(state)
  if (!calm && chance.hit(plan.loss)) return
  const copies = !calm && chance.hit(plan.doubling) ? 2 : 1
  for (let copy = 0; copy < copies; copy++) {
    const lateMs = calm ? 0 : chance.between(0, plan.lateMs)
    world.agenda.in(lateMs, () => arrive(state, announcement))
  }
}

function arrive(state: State, announcement: Announcement): void {
  if (isAway(state)) return
  state.messages.add({ announcement, holder: undefined, turn: 0 })
  tell(state)
}

/** Somebody of those that wait comes first. */
function tell({ arrivals, chance }: State): void {
  const waiting = [...arrivals]
  while (waiting.length > 0) waiting.splice(chance.below(waiting.length), 1)[0]?.()
}

/** Ids that somebody made up, of runs that stand elsewhere, and of such as were never announced. */
async function forge(state: State): Promise<void> {
  const { chance, world } = state
  const rows = await world.database.sql<{ run_id: string; tag: number }>(
    `SELECT run_id, tag FROM belfry.ready UNION ALL SELECT run_id, 0 FROM belfry.delayed ORDER BY run_id`,
  )
  const unknown = { run_id: '01900000-0000-7000-8000-000000000000', tag: 0 }
  const runs = rows.length === 0 || chance.hit(0.2) ? [unknown] : [chance.pick(rows), chance.pick(rows)]
  const wrong = chance.hit(0.4) ? 1 : 0
  world.note('carrier', `FORGED ${runs.map((run) => run.run_id).join(', ')}`)
  arrive(state, { queue: 'default', runs: runs.map((run) => ({ runId: run.run_id, tag: run.tag + wrong })) })
}

function openInbox(state: State, node: SimNode, isUp: () => boolean): AnnouncementInbox {
  const { chance, messages } = state
  let listens = false

  /** Those of them that are still held under this receipt. */
  const held = (taken: readonly TakenAnnouncement[]): readonly Message[] =>
    taken.flatMap(({ receipt }) => {
      const { message, turn } = receipt as Receipt
      return message.holder === node && message.turn === turn ? [message] : []
    })

  function giveBack(its: readonly Message[]): void {
    for (const message of its) message.holder = undefined
    if (its.length > 0) tell(state)
  }

  return {
    get up() {
      return listens && isUp()
    },
    start() {
      const { promise, resolve } = Promise.withResolvers<void>()
      // whoever joins a group gets its part later
      node.in(chance.between(0, 300), () => (listens = true))
      node.in(usualMs, resolve)
      return promise
    },
    async take(mostRuns, waitMs, signal) {
      await arrivalOf(state, node, waitMs, signal)
      const name = waits(state) ? 'carrier_take' : 'carrier_look'
      return await ask(state, node, name, () =>
        listens && !signal.aborted ? takeSome(state, node, mostRuns) : [],
      )
    },
    async settle(taken) {
      const settled = ask(state, node, 'carrier_settle', () => {
        for (const message of held(taken)) messages.delete(message)
      })
      await settled.catch(() => undefined)
    },
    async release(taken) {
      await ask(state, node, 'carrier_release', () => giveBack(held(taken))).catch(() => undefined)
    },
    async close() {
      listens = false
      const its = (): Message[] => [...messages].filter(({ holder }) => holder === node)
      await ask(state, node, 'carrier_close', () => giveBack(its())).catch(() => undefined)
    },
  }
}

const waits = ({ messages }: State): boolean => [...messages].some(({ holder }) => holder === undefined)

/** Resolves when something may be taken, or after `waitMs`, or at the signal. */
function arrivalOf(state: State, node: SimNode, waitMs: number, signal: AbortSignal): Promise<void> {
  const { arrivals } = state
  if (waits(state) || signal.aborted) return Promise.resolve()
  return new Promise((resolve) => {
    function end(): void {
      timer.cancel()
      arrivals.delete(end)
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = node.in(waitMs, end)
    arrivals.add(end)
    signal.addEventListener('abort', end)
  })
}

function takeSome(state: State, node: SimNode, mostRuns: number): readonly TakenAnnouncement[] {
  const { chance, messages, plan, world } = state
  const taken: TakenAnnouncement[] = []
  let runs = 0
  for (const message of messages) {
    if (message.holder !== undefined) continue
    if (runs >= mostRuns) break
    message.holder = node
    const turn = ++message.turn
    runs += message.announcement.runs.length
    taken.push({ ...message.announcement, receipt: { message, turn } satisfies Receipt })
    world.agenda.in(chance.between(leastHeldMs, mostHeldMs), () => {
      if (message.turn !== turn || message.holder === undefined || !messages.has(message)) return
      message.holder = undefined
      if (!isOver(state) && chance.hit(plan.loss)) messages.delete(message)
      else tell(state)
    })
  }
  return taken
}
