/**
 * What must become of jobs that wait for each other, told by a few plain rules and none of the product's code. All
 * operators' commands come while nothing runs; `drain` runs what can run to its end.
 */

export type End = 'completed' | 'dead' | 'cancelled'
export type State = End | 'blocked' | 'pending' | 'scheduled' | 'gone'
export type Policy = 'fail' | 'continue' | 'ignore' | 'compensate'
type Kind = 'work' | 'fan' | 'join' | 'batch' | 'note'

interface Link {
  end: End | undefined
  /** Which time it was done, of those that its parent waited for. */
  times?: number
  /** A step of the parent has added it: the parent waits for it in its run. */
  readonly own: boolean
}

export interface NodePlan {
  readonly id: string
  readonly kind: Kind
  readonly queue: string
  /** What its end means for those that wait for it. */
  readonly policy: Policy
  /** Attempts that fail from now on. */
  readonly fails: number
  /** Gone as soon as it has ended; of a batch: its callbacks are. */
  readonly fleeting: boolean
  readonly undone: boolean
  readonly parents: readonly string[]
  /** What can be undone is found by it: it is there until its flow is over, even if it is fleeting. */
  readonly stays?: boolean
  /** Of a fan: what its step adds. */
  readonly adds?: readonly NodePlan[]
  /** Of a fan: what it makes of children that fail. */
  readonly gathers?: 'fail' | 'continue' | 'ignore'
}

export const maxAttempts = 2

export class ModelNode {
  readonly plan: NodePlan
  readonly links = new Map<string, Link>()
  state: State = 'pending'
  failure: string | undefined
  fails: number
  /** How often its handler began; not told of fans, whose children may be done before they have to wait. */
  runs = 0
  attempts = 0
  /** What it saw of its children when it last ran. */
  seen: string[] = []
  open = false
  alarmed = false
  isOverdue = false
  doneTimes = 0
  /** What was done for it has been undone: it never runs again. */
  isUndone = false
  added = false
  /** How often it has begun afresh: its step adds other children then. */
  life = 0

  constructor(plan: NodePlan) {
    this.plan = plan
    this.fails = plan.fails
  }

  get waits(): boolean {
    return this.waitsToRun || this.waitsInRun
  }

  get waitsToRun(): boolean {
    return this.open || [...this.links.values()].some(({ end, own }) => end === undefined && !own)
  }

  get waitsInRun(): boolean {
    return [...this.links.values()].some(({ end, own }) => end === undefined && own)
  }

  /** What the step of a fan adds in this life. */
  get adds(): readonly NodePlan[] {
    const { adds = [] } = this.plan
    return this.life === 0 ? adds : adds.map((plan) => ({ ...plan, id: `${plan.id}/${this.life}` }))
  }

  get isLive(): boolean {
    return this.state === 'blocked' || this.state === 'pending' || this.state === 'scheduled'
  }
}

export class FlowModel {
  readonly nodes = new Map<string, ModelNode>()
  /** Jobs that have to be undone, each once for each time that it was done, and those that may have been. */
  readonly undone = new Set<string>()
  readonly mayBeUndone = new Set<string>()
  /** What was found completed when others were undone, and who else waits for it or has used it. */
  #shared: { readonly done: string; readonly users: readonly ModelNode[] }[] = []
  readonly told: string[] = []

  of(id: string): ModelNode {
    return this.nodes.get(id) as ModelNode
  }

  /** Parents come before their children; `open` takes more of them later. */
  add(plans: readonly NodePlan[], open = false, own = false): void {
    for (const plan of plans) {
      const node = new ModelNode(plan)
      this.nodes.set(plan.id, node)
      node.open = open && plan.kind === 'batch'
      for (const parent of plan.parents) this.of(parent).links.set(plan.id, { end: undefined, own })
    }
    for (const { id } of plans) if (this.of(id).waits) this.of(id).state = 'blocked'
  }

  takesMore(id: string): boolean {
    return this.of(id).isLive && this.of(id).waits
  }

  seal(id: string): void {
    const node = this.of(id)
    if (!node.open || !node.isLive) return
    node.open = false
    if (node.state === 'blocked' && !node.waits) node.state = 'pending'
    else if (node.waits && !node.alarmed) node.state = 'blocked'
  }

  /** Nobody has sealed it in time. */
  losePatience(id: string): void {
    const node = this.of(id)
    if (!node.open) return
    node.isOverdue = true
    if (node.isLive) node.state = 'pending'
  }

  drain(queues: readonly string[]): void {
    const over = new Set([...this.nodes.values()].filter(({ isLive }) => !isLive))
    this.#runAll(queues)
    for (const { done, users } of this.#shared) this.#judgeShared(done, users, over)
    this.#shared = []
  }

  /**
   * It stays if one of its users has completed, or still can; it is undone if none could any more before this drain.
   * A user that failed meanwhile may have done so before or after somebody looked.
   */
  #judgeShared(done: string, users: readonly ModelNode[], over: ReadonlySet<ModelNode>): void {
    if (users.some((one) => one.state === 'completed' || (one.isLive && !this.#isHindered(one)))) return
    if (users.every((one) => over.has(one))) this.undone.add(done)
    else this.mayBeUndone.add(done)
  }

  #runAll(queues: readonly string[]): void {
    for (let changed = true; changed; ) {
      changed = false
      for (const node of [...this.nodes.values()]) {
        const { state } = node
        const isReady = state === 'pending' || state === 'scheduled'
        if (!isReady || !queues.includes(node.plan.queue)) continue
        this.#run(node)
        changed ||= node.state !== 'scheduled' || state !== 'scheduled'
      }
    }
  }

  cancel(id: string): void {
    const doomed: ModelNode[] = []
    this.#cancel(this.of(id), doomed)
    for (const parent of doomed)
      for (const [child, { end }] of parent.links)
        if (end === undefined && this.#isUnwanted(this.of(child))) this.#cancel(this.of(child), doomed)
  }

  retry(id: string): void {
    const node = this.of(id)
    if (node.isLive || node.state === 'gone') return
    this.#reopen(node)
    if (node.state === 'completed') {
      // Those of its last life go on without it.
      for (const { id: own } of node.adds) node.links.delete(own)
      node.added = false
      node.life++
    }
    node.attempts = 0
    node.state = node.waitsToRun && !node.open ? 'blocked' : 'pending'
  }

  /** Whether the job that its flow leads to has come to one of these ends. */
  isOver(id: string, ends: readonly State[]): boolean {
    const { plan, state } = this.of(id)
    const [parent] = plan.parents
    return parent === undefined ? ends.includes(state) : this.isOver(parent, ends)
  }

  remove(id: string): void {
    const node = this.of(id)
    const { isLive } = node
    if (node.plan.stays && !isLive && !this.isOver(id, ['completed', 'dead', 'cancelled', 'gone'])) return
    node.state = 'gone'
    if (isLive) this.#tell(node, 'cancelled')
  }

  #run(node: ModelNode): void {
    const { kind } = node.plan
    if (kind === 'batch') return this.#wakeBatch(node)
    const inTheWay = [...node.links].filter(([child, link]) => this.#hinders(child, link))
    if (inTheWay.length > 0) return this.#fall(node, inTheWay)
    if (node.isUndone) return this.#end(node, 'dead', 'COMPENSATED')
    if (kind === 'fan' && !node.added) this.#fanOut(node)
    if (node.waitsInRun) {
      node.state = 'blocked'
      return
    }
    node.runs++
    node.seen = [...node.links]
      .filter(([child, { end, own }]) => end !== undefined && !own && !this.#isHidden(child, end))
      .map(([child, { end }]) => `${child} ${end}`)
      .sort()
    const hasFailed = node.adds.some(({ id }) => node.links.get(id)?.end !== 'completed')
    if (hasFailed && node.plan.gathers === 'fail') return this.#end(node, 'dead', 'CHILD_FAILED')
    if (node.fails === 0) return this.#end(node, 'completed')
    node.fails--
    node.attempts++
    if (node.attempts >= maxAttempts) this.#end(node, 'dead', 'HANDLER')
  }

  #isHidden(child: string, end: End): boolean {
    return end !== 'completed' && this.of(child).plan.policy === 'ignore'
  }

  #hinders(child: string, { end }: Link): boolean {
    const { policy } = this.of(child).plan
    return end !== undefined && end !== 'completed' && ['fail', 'compensate'].includes(policy)
  }

  #fall(node: ModelNode, inTheWay: readonly (readonly [string, Link])[]): void {
    if (inTheWay.some(([child]) => this.of(child).plan.policy === 'compensate')) {
      const below = this.#below(node)
      const links = [...below].flatMap(({ state, links }) => (state === 'gone' ? [] : [...links.values()]))
      if (links.some(({ end }) => end === undefined)) {
        node.state = 'scheduled'
        return
      }
      this.#undo(below)
      node.isUndone = true
      return this.#end(node, 'dead', 'COMPENSATED')
    }
    if (inTheWay.some(([, { end }]) => end === 'dead')) return this.#end(node, 'dead', 'CHILD_FAILED')
    this.#end(node, 'cancelled')
  }

  /** Who is kept no more took with it what it knew of its own children. */
  #below(top: ModelNode): Set<ModelNode> {
    const below = new Set<ModelNode>([top])
    for (const node of below)
      if (node.state !== 'gone') for (const child of node.links.keys()) below.add(this.of(child))
    return below
  }

  /** Each once, unless a job of another branch has used it or will. */
  #undo(below: ReadonlySet<ModelNode>): void {
    const isOther = (id: string) => !below.has(this.of(id))
    for (const node of below)
      for (const [child, { end, times }] of node.state === 'gone' ? [] : node.links) {
        const { plan, state } = this.of(child)
        const done = `${child} ${times}`
        const others = state === 'gone' ? [] : plan.parents.filter(isOther).map((id) => this.of(id))
        if (end !== 'completed' || !plan.undone) continue
        if (others.length === 0) this.undone.add(done)
        else this.#shared.push({ done, users: others })
      }
  }

  #isHindered(node: ModelNode): boolean {
    return [...node.links].some(([child, link]) => this.#hinders(child, link))
  }

  #fanOut(node: ModelNode): void {
    node.added = true
    this.add(node.adds, false, true)
  }

  #wakeBatch(node: ModelNode): void {
    const ends = [...node.links.values()].map(({ end }) => end)
    const tell = (event: string) => {
      const id = `${node.plan.id}.${event}`
      if (this.nodes.has(id)) return
      this.add([{ ...node.plan, id, kind: 'note', parents: [], fails: 0 }])
    }
    if (node.isOverdue) node.open = false
    if (ends.includes('dead')) tell('onDead')
    if (node.waits) {
      node.state = 'blocked'
      return
    }
    tell('onComplete')
    if (ends.every((end) => end === 'completed')) tell('onSuccess')
    this.#end(node, 'completed')
  }

  #end(node: ModelNode, end: End, failure?: string): void {
    if (end === 'completed') node.doneTimes++
    const { fleeting, stays, kind } = node.plan
    node.state = fleeting && !stays && kind !== 'batch' ? 'gone' : end
    node.failure = failure
    this.#tell(node, end)
  }

  #tell(node: ModelNode, end: End): void {
    for (const id of node.plan.parents) {
      const parent = this.of(id)
      const link = parent.links.get(node.plan.id)
      if (link === undefined || link.end !== undefined || parent.state === 'gone') continue
      link.end = end
      link.times = node.doneTimes
      const isFirstDeath = parent.plan.kind === 'batch' && end === 'dead' && !parent.alarmed
      if (isFirstDeath) parent.alarmed = true
      const isAwaited = link.own ? !parent.waitsInRun : true
      if (parent.state !== 'blocked') continue
      if (isFirstDeath || (isAwaited && !parent.waitsToRun)) parent.state = 'pending'
    }
  }

  #cancel(node: ModelNode, doomed: ModelNode[]): void {
    if (!node.isLive) return
    node.state = 'cancelled'
    this.#tell(node, 'cancelled')
    if (node.waits) doomed.push(node)
  }

  #isUnwanted({ plan }: ModelNode): boolean {
    return plan.parents.every((id) => !this.of(id).isLive)
  }

  /** Its parents wait for it again, if they have not completed without it. */
  #reopen(node: ModelNode): void {
    for (const id of node.plan.parents) {
      const parent = this.of(id)
      const link = parent.links.get(node.plan.id)
      if (link?.end === undefined || parent.state === 'completed' || parent.state === 'gone') continue
      if (link.own && link.end === 'completed') continue
      const revives = parent.state === 'dead' && parent.failure === 'CHILD_FAILED'
      if (revives) this.#reopen(parent)
      link.end = undefined
      const hasBusiness = parent.open || parent.alarmed || link.own
      if (revives || (['pending', 'scheduled'].includes(parent.state) && !hasBusiness))
        parent.state = 'blocked'
      if (revives) parent.attempts = 0
    }
  }
}
