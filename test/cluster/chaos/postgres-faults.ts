// Postgres killed, stopped, replaced by its standby, out of connections, out of room, or held by a
// transaction.
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import { type Fault, hit, hitAtLeast } from './fault.ts'

/** kill -9 under load, and later a stop of three seconds. */
export const restartPostgres: Fault = {
  async wreak(world) {
    const { arena } = world
    await world.until(2 + world.draw(10) / 10)
    const { pid } = arena.postgres
    world.note('kill -9 Postgres')
    process.kill(pid, 'SIGKILL')
    await world.until(7)
    if (arena.postgres.pid !== pid) hit(world)
    world.note('Postgres stops')
    await arena.stopPostgres()
    await wait(3_000)
    await arena.startPostgres()
    world.note('Postgres is back')
    hit(world)
  },
  missed: hitAtLeast(2, 'new Postgres processes'),
}

/** The primary dies, and a second later its synchronous standby is the primary. */
export const promoteStandby: Fault = {
  async wreak(world) {
    const { standby } = world.ground
    if (standby === undefined) throw new Error('there is no standby')
    await world.until(3 + world.draw(20) / 10)
    world.note('kill -9 the primary')
    await standby.killPrimary()
    await wait(1_000)
    await standby.promote()
    world.note('the standby is the primary')
    hit(world)
  },
  missed: hitAtLeast(1, 'promotions'),
}

/** Now and then all of them. */
const cutSome = `
  SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE usename = 'belfry' ORDER BY md5(pid::text || $1) LIMIT $2`

export const cutConnections: Fault = {
  async wreak(world) {
    const admin = await world.arena.connect()
    let cut = 0
    for (let step = 0; step < 30; step++) {
      await world.until(1.5 + step * 0.3)
      const most = world.draw(8) === 0 ? 1_000 : 1 + world.draw(4)
      cut += (await admin.query(cutSome, [String(world.draw(1_000_000)), most])).rowCount ?? 0
    }
    await admin.end()
    world.note(`cut ${cut} connections`)
    hit(world, cut)
  },
  missed: hitAtLeast(20, 'connections cut'),
}

const cutAll = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'belfry%'"
const exhaustedMs = 4_000

/** Somebody else takes every connection that there is, for four seconds. */
export const exhaustConnections: Fault = {
  async wreak(world) {
    const admin = await world.arena.connect()
    const takers: pg.Client[] = []
    const take = async (): Promise<boolean> => {
      const taker = new pg.Client(world.arena.databaseUrl)
      taker.on('error', () => undefined)
      const taken = await taker.connect().then(
        () => true,
        () => false,
      )
      if (taken) takers.push(taker)
      return taken
    }
    await world.until(2 + world.draw(10) / 10)
    world.note('every connection is taken')
    const endMs = performance.now() + exhaustedMs
    while (performance.now() < endMs) {
      while (await take());
      await admin.query(cutAll)
      while (await take());
      await wait(100)
    }
    hit(world, takers.length)
    await Promise.all(takers.map((taker) => taker.end()))
    await admin.end()
    world.note('connections are free again')
  },
  missed: hitAtLeast(40, 'connections taken'),
}

/** Keeps every row that dies from being cleared away, for as long as the load runs. */
export const holdTransaction: Fault = {
  async wreak(world) {
    const holder = await world.arena.connect()
    await holder.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    // a number of its own and a snapshot
    await holder.query('SELECT pg_current_xact_id(), (SELECT count(*) FROM belfry.ready)')
    world.note('a transaction is held')
    await world.until(world.windowMs / 1_000)
    const [held] = await world.arena.rows<{ age: number }>(
      'SELECT max(age(backend_xmin))::int AS age FROM pg_stat_activity',
    )
    hit(world, held?.age)
    await holder.query('COMMIT')
    await holder.end()
  },
  missed: hitAtLeast(100, 'transactions behind the one that was held'),
}

const fullMs = 4_000
/** Until somebody was refused, on a machine that is slow. */
const longestFullMs = 15_000

/** No room for rows, for four seconds. */
export const fillDisk: Fault = {
  async wreak(world) {
    const { disk } = world.ground
    if (disk === undefined) throw new Error('there is no small disk')
    await world.until(2 + world.draw(10) / 10)
    disk.fill()
    world.note('the disk is full')
    const fromMs = performance.now()
    let refused = 0
    const goesOn = (): boolean => {
      const tookMs = performance.now() - fromMs
      return tookMs < fullMs || (refused === 0 && tookMs < longestFullMs)
    }
    const node = world.arena.nodes.get('api')
    const body = { handler: { kind: 'http', url: world.arena.ledger.url, body: 'x'.repeat(4_000) } }
    for (let number = 0; node !== undefined && goesOn(); number++) {
      const answer = await world.arena
        .call(node, 'POST', '/v1/jobs', { name: `fills-${number}`, ...body })
        .catch(() => undefined)
      if (answer !== undefined && answer.status >= 500) {
        refused++
        await wait(50)
      }
    }
    hit(world, refused)
    disk.free()
    world.note('there is room again')
  },
  missed: hitAtLeast(1, 'writes refused'),
}
