// The container handler on a real engine: what goes in, what comes out, how it ends, and that nothing of it
// stays.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type ContainerEngine, startContainerEngine } from '../support/container-engine.ts'
import { type ContainerRig, createContainerRig } from '../support/container-rig.ts'
import { describeNeeding } from '../support/needs.ts'

describeNeeding('podman', 'containers on a real engine', (podman) => {
  let engine: ContainerEngine
  let rig: ContainerRig
  beforeAll(async () => {
    engine = await startContainerEngine(podman)
    rig = createContainerRig(engine, { secrets: { 'db.main': 's3cret-value-1', short: '12345678' } })
  }, 60_000)
  afterAll(async () => {
    await rig?.close()
    await engine?.close()
  })
  afterEach(async () => {
    await engine.mustBeEmpty()
  })

  test('input comes by standard input, and the last line is the result where it is JSON', async () => {
    const { result, text } = await rig.sh(
      'cat; echo; echo working; echo "{\\"rows\\": 3}"',
      {},
      { input: { day: 'mon' } },
    )
    expect(result).toEqual({ outcome: 'succeeded', result: { rows: 3 } })
    expect(text).toBe('{"day":"mon"}\nworking\n{"rows": 3}')
    expect(await rig.sh('echo done')).toMatchObject({ result: { outcome: 'succeeded', result: undefined } })
  })

  test('input and result may be files, and no other file can be made beside them', async () => {
    const script =
      'cat $BELFRY_INPUT_FILE; echo; touch /belfry/other; rm -f /belfry/result.json; ' +
      'echo x >> /belfry/input.json; ' +
      'echo "[1,2]" > $BELFRY_RESULT_FILE; ls -a /belfry'
    const { result, text, lines } = await rig.sh(script, { input: 'file', result: 'file' }, { input: [5] })
    expect(result).toEqual({ outcome: 'succeeded', result: [1, 2] })
    expect(text).toBe('[5]\n.\n..\ninput.json\nresult.json')
    const said = lines.filter(({ fields }) => fields !== undefined).map(({ message }) => message)
    expect(said.filter((message) => /denied|not permitted|Read-only/i.test(message))).toHaveLength(3)
  })

  test('a result file that is no JSON or too large fails the attempt for good', async () => {
    const bad = await rig.sh('echo hello > $BELFRY_RESULT_FILE', { result: 'file' })
    expect(bad.result).toMatchObject({
      outcome: 'failed',
      retryable: false,
      error: { code: 'result_invalid' },
    })
    const script = 'dd if=/dev/zero of=$BELFRY_RESULT_FILE bs=1k count=300 2>&1'
    const large = await rig.sh(script, { result: 'file' })
    expect(large.result).toMatchObject({
      outcome: 'failed',
      retryable: false,
      error: { code: 'result_invalid' },
    })
    const none = await rig.sh('true', { result: 'file' })
    expect(none.result).toEqual({ outcome: 'succeeded', result: undefined })
  })

  // case: sandbox.env_leak
  test('the run tells of itself in the environment, which holds nothing of the worker', async () => {
    process.env['DATABASE_URL'] ??= 'postgres://leak'
    const { text } = await rig.sh(
      'env | sort',
      { env: { WHO: 'run {{run.id}}, try {{run.attempt}}' } },
      { attempt: 2 },
    )
    const lines = text.split('\n').map((line): [string, string] => {
      const [name = '', value = ''] = line.split(/=(.*)/s, 2)
      return [name, value]
    })
    const env = Object.fromEntries(lines)
    expect(env).toMatchObject({ BELFRY_ATTEMPT: '2', BELFRY_SCHEDULED_FOR: '2026-12-01T00:00:00.000Z' })
    expect(env['BELFRY_IDEMPOTENCY_KEY']).toBe(env['BELFRY_RUN_ID'])
    expect(env['WHO']).toBe(`run ${env['BELFRY_RUN_ID']}, try 2`)
    const known = /^(?:BELFRY_|TRACEPARENT$|WHO$|PATH$|HOME$|HOSTNAME$|TERM$|container$|SHLVL$|PWD$)/
    expect(Object.keys(env).filter((name) => !known.test(name))).toEqual([])
  })

  // cases: log.secret_plain log.secret_split
  test('secrets come by the environment and are masked in log and result, in all forms', async () => {
    const env = { PASSWORD: { secret: 'db.main' }, URL: 'pg://u:{{secrets.db.main}}@db' }
    const script =
      'test "$PASSWORD" = s3cret-value-1 && echo right; echo "a $URL b"; printf "s3cret-"; sleep 0.3; ' +
      'printf "value-1\\n"; ' +
      'printf "$PASSWORD" | base64; echo "$PASSWORD" >&2; echo "{\\"p\\":\\"$PASSWORD\\",\\"n\\":12345678}"'
    const { result, lines } = await rig.sh(script, { env })
    expect(lines.map(({ message }) => message).join('\n')).not.toMatch(/s3cret|value-1|czNjcmV0/)
    expect(lines[0]?.message).toBe('right')
    expect(lines[1]?.message).toBe('a pg://u:***@db b')
    expect(result).toEqual({ outcome: 'succeeded', result: { p: '***', n: '***' } })
  })

  test('both streams are told apart, in lines, whatever bytes they hold', async () => {
    const script = 'echo out; echo err >&2; printf "\\377\\000x\\n"; printf "no end"'
    const { lines } = await rig.sh(script, { result: 'none' })
    expect(lines.map(({ level, message, fields }) => [level, message, fields])).toEqual(
      expect.arrayContaining([
        ['info', 'out', undefined],
        ['warn', 'err', { stream: 'stderr' }],
        ['info', '\uFFFD\uFFFDx', undefined],
        ['info', 'no end', undefined],
      ]),
    )
  })

  test.each([
    [{}, 7, { outcome: 'failed', retryable: true, error: { code: 'exit_7' } }],
    [{ noRetryExitCodes: [2, 7] }, 7, { outcome: 'failed', retryable: false, error: { code: 'exit_7' } }],
    [{ skippedExitCode: 99 }, 99, { outcome: 'skipped', error: { code: 'exit_99' } }],
    [{}, 137, { outcome: 'failed', retryable: true, error: { code: 'container_out_of_memory' } }],
  ])('with %j the exit code %i is judged', async (fields, code, expected) => {
    expect((await rig.sh(`exit ${code}`, fields)).result).toMatchObject(expected)
  })

  test('what cannot start says why, and whether another attempt helps', async () => {
    const missing = await rig.run({ command: ['/no/such/program'] })
    expect(missing.result).toMatchObject({
      outcome: 'failed',
      retryable: false,
      error: { code: 'container_not_started' },
    })
    const image = await rig.run({ image: 'localhost/nobody/has:1' })
    expect(image.result).toMatchObject({
      outcome: 'failed',
      retryable: false,
      error: {
        code: 'container_image_missing',
        message: expect.stringContaining('containerPull') as unknown,
      },
    })
  })

  test('it ends by SIGTERM where it listens to it, else by SIGKILL after its grace', async () => {
    const polite = rig.begin({
      command: ['sh', '-c', 'trap "echo bye; exit 0" TERM; echo up; while :; do sleep 0.1; done'],
    })
    await expect.poll(() => polite.lines().length, { timeout: 20_000 }).toBe(1)
    polite.abort('cancel')
    expect((await polite.ended).text).toBe('up\nbye')
    const deaf = rig.begin({
      command: ['sh', '-c', 'trap "" TERM; echo up; while :; do sleep 0.1; done'],
      stopGraceMs: 300,
    })
    await expect.poll(() => deaf.lines().length, { timeout: 20_000 }).toBe(1)
    deaf.abort('timeout')
    expect((await deaf.ended).result).toMatchObject({
      outcome: 'failed',
      error: { code: 'container_stopped' },
    })
  })

  test('with its lease lost it is killed at once', async () => {
    const run = rig.begin({
      command: ['sh', '-c', 'trap "" TERM; echo up; while :; do sleep 0.1; done'],
      stopGraceMs: 10_000,
    })
    await expect.poll(() => run.lines().length, { timeout: 20_000 }).toBe(1)
    const begunMs = performance.now()
    run.abort('lease_lost')
    await run.ended
    expect(performance.now() - begunMs).toBeLessThan(5_000)
  })

  test('the policy holds at the start of a run too, and a refusal is on record', async () => {
    const strict = createContainerRig(engine, { policy: { images: ['registry.example.com/*'] } })
    const { result } = await strict.sh('true')
    expect(result).toMatchObject({ outcome: 'failed', retryable: false, error: { code: 'container_denied' } })
    expect(strict.notes).toMatchObject([{ action: 'container.deny', outcome: 'refused' }])
    await strict.close()
  })

  test('where no engine answers, the attempt fails and may be tried again', async () => {
    const away = createContainerRig({ ...engine, socketPath: '/nowhere/engine.sock' })
    const { result } = await away.sh('true')
    expect(result).toMatchObject({
      outcome: 'failed',
      retryable: true,
      error: { code: 'container_engine_unavailable' },
    })
    await away.close()
  })
})
