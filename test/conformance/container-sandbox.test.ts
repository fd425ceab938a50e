// What a container can do to the machine that it runs on, seen from inside a real one: the cases `sandbox.*`,
// and programs that mean harm.
import { statfsSync } from 'node:fs'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type ContainerEngine, startContainerEngine, volumeImage } from '../support/container-engine.ts'
import { type ContainerRig, createContainerRig } from '../support/container-rig.ts'
import { describeNeeding } from '../support/needs.ts'

describeNeeding('podman', 'the walls around a container', (podman) => {
  let engine: ContainerEngine
  let rig: ContainerRig
  beforeAll(async () => {
    engine = await startContainerEngine(podman)
    rig = createContainerRig(engine)
  }, 60_000)
  afterAll(async () => {
    await rig?.close()
    await engine?.close()
  })
  afterEach(async () => {
    await engine.mustBeEmpty()
  })

  // cases: sandbox.caps sandbox.nnp sandbox.seccomp sandbox.uid
  test('no capabilities, no new privileges, seccomp, no root', async () => {
    const { text } = await rig.sh('grep -E "^(Cap|NoNewPrivs|Seccomp:)" /proc/self/status; id -u; id -g')
    const [uid, gid] = text.split('\n').slice(-2)
    expect(text.match(/^Cap\w+:\s+0{16}$/gm)).toHaveLength(5)
    expect(text).toMatch(/^NoNewPrivs:\s+1$/m)
    expect(text).toMatch(/^Seccomp:\s+2$/m)
    expect([uid, gid]).toEqual(['65534', '65534'])
  })

  test('user and group are the numbers of the job, whatever the image says', async () => {
    const { text } = await rig.sh('id -u; id -g; id -G', { user: '1234:4321' })
    expect(text).toBe('1234\n4321\n4321')
  })

  test('the root is read-only, and every place that can be written to has a bound', async () => {
    const script = `
      for d in / /bin /etc /usr /var /home /root /sys /proc /dev /belfry; do
        touch $d/x 2>/dev/null && echo "writable $d"; done
      for d in /tmp /var/tmp /run /dev/shm /dev/mqueue /work; do
        touch $d/x 2>/dev/null || continue
        dd if=/dev/zero of=$d/fill bs=64k count=1000 2>/dev/null
        echo "$d $(($(wc -c < $d/fill 2>/dev/null || echo 0) / 1024))"; rm -f $d/fill
        cp /bin/busybox $d/sh 2>/dev/null; $d/sh true 2>/dev/null && echo "runs in $d"; rm -f $d/sh
      done; true`
    const { text } = await rig.sh(script, { tmpfs: { '/tmp': 4, '/work': 8 } })
    const sizes = Object.fromEntries(text.split('\n').map((line) => line.split(' ') as [string, string]))
    expect(text).not.toMatch(/writable|runs in/)
    expect(Number(sizes['/tmp'])).toBeLessThanOrEqual(4 * 1024)
    expect(Number(sizes['/work'])).toBeLessThanOrEqual(8 * 1024)
    const others = Object.entries(sizes).filter(([place]) => place !== '/tmp' && place !== '/work')
    for (const [, sizeKb] of others) expect(Number(sizeKb)).toBeLessThanOrEqual(1024)
  })

  test('there is no network but its own loopback', async () => {
    const script = `
      ip -o link | cut -d: -f2; ip route
      for a in 127.0.0.1:22 10.0.0.1:80 169.254.169.254:80 1.1.1.1:53; do
        nc -w 1 \${a%:*} \${a#*:} </dev/null && echo "reached $a"; done 2>&1
      nslookup example.com 2>&1 | grep -c Address; true`
    const { text } = await rig.sh(script)
    expect(text.split('\n')[0]).toBe(' lo')
    expect(text).not.toContain('reached')
  })

  test('nothing of the machine is in it (sandbox.sock)', async () => {
    const script = `
      ls /var/run/docker.sock /run/podman /host 2>&1 | grep -v "No such"
      ls /dev | tr "\\n" " "; echo; ps | wc -l; cat /proc/1/comm
      cat /proc/kcore /proc/sysrq-trigger /dev/kmsg /dev/mem /dev/vda 2>&1 | head -c 300
      for p in unshare mount chroot; do $p --help >/dev/null 2>&1; done
      unshare -m true 2>&1; unshare -U true 2>&1; mount -t tmpfs none /tmp 2>&1
      chroot / true 2>&1; mknod /tmp/m c 1 1 2>&1; true`
    const { text, lines } = await rig.sh(script)
    expect(text.split('\n')[0]?.split(' ')).not.toEqual(expect.arrayContaining(['vda']))
    expect(text.split('\n')[0]).not.toMatch(/vda|kmsg|mem\\b|kvm/)
    expect(text).toMatch(/\nsh\n/)
    const all = lines.map(({ message }) => message).join('\n')
    expect(all.match(/not permitted|denied|are you root/gi)?.length).toBeGreaterThanOrEqual(4)
    expect(Number(text.split('\n')[1])).toBeLessThan(10)
  })

  test('a fork bomb stops at its bound, and others run on', async () => {
    const bomb = rig.begin({
      command: ['sh', '-c', 'f() { f | f & }; f; sleep 30'],
      limits: { pids: 16 },
      stopGraceMs: 0,
    })
    const { result } = await rig.sh('echo fine')
    expect(result.outcome).toBe('succeeded')
    bomb.abort('timeout')
    expect((await bomb.ended).result.outcome).toBe('failed')
  })

  test('memory has a bound, also for what is written to tmpfs', async () => {
    const eat = await rig.sh('x=a; while :; do x=$x$x$x$x; done', {
      limits: { memoryMb: 24 },
      tmpfs: { '/tmp': 8 },
    })
    expect(eat.result).toMatchObject({ outcome: 'failed', retryable: true })
    const message = eat.result.outcome === 'failed' ? eat.result.error.message : ''
    expect(message).toMatch(/memory|exit code/)
    const full = await rig.sh('dd if=/dev/zero of=/tmp/x bs=1M count=64; echo "{\\"code\\":$?}"', {
      tmpfs: { '/tmp': 8 },
    })
    expect(full.result).toEqual({ outcome: 'succeeded', result: { code: 1 } })
  })

  test('a volume that the image wants is a little memory, not disk', async () => {
    const script =
      'mount | grep " /data "; dd if=/dev/zero of=/data/x bs=64k count=100 2>/dev/null; wc -c < /data/x'
    const { text } = await rig.sh(script, { image: volumeImage })
    expect(text.split('\n')[0]).toMatch(/^tmpfs on \/data type tmpfs .*noexec/)
    expect(Number(text.split('\n')[1])).toBeLessThanOrEqual(1024 * 1024)
    const asked = await rig.sh('df -k /data | tail -1', { image: volumeImage, tmpfs: { '/data': 8 } })
    expect(asked.text).toMatch(/\b8192\b/)
  })

  test('the disk of the machine is not filled by any way out of the container', async () => {
    const { bavail, bsize } = statfsSync('/tmp')
    const script = 'yes > $BELFRY_RESULT_FILE; yes > /tmp/x; yes > /var/tmp/x; yes > /dev/shm/x; true'
    const { result } = await rig.sh(script, { result: 'file', tmpfs: { '/tmp': 4 } })
    expect(result.outcome).toBe('failed')
    const after = statfsSync('/tmp')
    expect((bavail - after.bavail) * bsize).toBeLessThan(512 * 1024 * 1024)
  })

  test('a flood of output is cut at the cap of the log, and slowed', async () => {
    const flood = rig.begin({ command: ['sh', '-c', 'yes "line of a flood"'], stopGraceMs: 0 })
    await expect
      .poll(() => JSON.stringify(flood.lines()).length, { timeout: 20_000 })
      .toBeGreaterThan(200_000)
    const usedBefore = process.cpuUsage()
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    const used = process.cpuUsage(usedBefore)
    flood.abort('timeout')
    await flood.ended
    expect(JSON.stringify(flood.lines()).length).toBeLessThan(800_000)
    expect((used.user + used.system) / 1_000).toBeLessThan(700)
  })

  test('symbolic links lead nowhere outside', async () => {
    const script =
      'rm -f $BELFRY_RESULT_FILE; ln -s /etc/shadow $BELFRY_RESULT_FILE; ' +
      'ln -s / /tmp/root; cat /tmp/root/etc/shadow; true'
    const { result, lines } = await rig.sh(script, { result: 'file' })
    expect(result).toEqual({ outcome: 'succeeded', result: undefined })
    expect(lines.some(({ message }) => /root:[^:]*:\d/.test(message))).toBe(false)
  })

  test.each([
    ['output.set_env', '::set-env name=PATH::/evil'],
    ['output.delimiter', 'x\n_GitHubActionsFileCommandDelimeter_\nPATH=/evil'],
    ['output.result_template', '{"next":"{{secret:prod-db}}"}'],
  ])('what it prints is text and nothing else (%s)', async (_case, printed) => {
    const { text, result } = await rig.sh('cat', { input: 'none', command: ['printf', '%s', printed] })
    expect(text).toBe(printed)
    expect(result.outcome).toBe('succeeded')
    const next = await rig.sh('echo $PATH')
    expect(next.text).toBe('/bin')
  })
})
