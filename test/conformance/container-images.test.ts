// Where images come from: only from registries on the list, only where the server pulls at all, and by digest
// the very one that was meant.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ContainerEngine, startContainerEngine } from '../support/container-engine.ts'
import { createContainerRig } from '../support/container-rig.ts'
import { type ImageRegistry, startImageRegistry } from '../support/image-registry.ts'
import { describeNeeding } from '../support/needs.ts'

describeNeeding('podman', 'images of a registry', (podman) => {
  let engine: ContainerEngine
  let registry: ImageRegistry
  beforeAll(async () => {
    engine = await startContainerEngine(podman)
    registry = await startImageRegistry(engine.imageArchive)
  }, 60_000)
  afterAll(async () => {
    await registry?.close()
    await engine?.close()
  })

  test('nothing is pulled where the server does not let it, or the list does not name it', async () => {
    const image = `${registry.host}/team/app:1`
    const never = createContainerRig(engine, { policy: { images: [`${registry.host}/team/*`] } })
    expect((await never.sh('true', { image })).result).toMatchObject({
      error: { code: 'container_image_missing' },
    })
    const elsewhere = createContainerRig(engine, {
      policy: { images: ['registry.example.com/*'], pull: true },
    })
    expect((await elsewhere.sh('true', { image })).result).toMatchObject({
      error: { code: 'container_denied' },
    })
    expect(registry.asked).toEqual([])
    await never.close()
    await elsewhere.close()
  })

  test('what is missing is pulled once, by tag or digest, and a wrong digest is not run', async () => {
    const policy = { images: [`${registry.host}/team/*`], pull: true }
    const rig = createContainerRig(engine, { policy })
    const pinned = `${registry.host}/team/app@${registry.digest}`
    expect(await rig.sh('echo pulled', { image: pinned })).toMatchObject({ text: 'pulled' })
    const pulls = registry.asked.length
    expect(pulls).toBeGreaterThan(0)
    expect(await rig.sh('echo again', { image: pinned })).toMatchObject({ text: 'again' })
    expect(registry.asked.length).toBe(pulls)
    expect(await rig.sh('echo tagged', { image: `${registry.host}/team/app:1` })).toMatchObject({
      text: 'tagged',
    })
    const wrong = await rig.sh('true', { image: `${registry.host}/team/app@sha256:${'0'.repeat(64)}` })
    expect(wrong.result.outcome).toBe('failed')
    const missing = await rig.sh('true', { image: `${registry.host}/team/none:1` })
    expect(missing.result).toMatchObject({ outcome: 'failed', error: { code: 'container_image_missing' } })
    await rig.close()
    await engine.mustBeEmpty()
  })
})
