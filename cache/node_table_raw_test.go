package cache

// raw is the state of a node as the engine keeps it.
type raw struct{ flags }

func rawOf(n *node) raw { return raw{n.flags} }
func setRaw(e *engine, n *node, r raw) {
	n.flags = r.flags
	if e.shadow.nodes == nil {
		e.shadow.nodes = map[*node]nodeState{}
	}
	e.shadow.nodes[n] = stateOf(r.flags)
}

func counted(n *node) bool    { return n.flags&counting != 0 }
func dataInFlight(r raw) bool { return r.flags&(flying|gone) == flying }
func listInFlight(r raw) bool { return r.flags&(listFlying|gone) == listFlying }
func doubtParent(s *scene)    { setRaw(s.engine, s.store.top, raw{doubted}) }
func forgetWatches(s *scene)  { s.way.forget(s.n) }

func queuedOps(n *node) (ops []op) {
	if n.flags&wanted != 0 {
		ops = append(ops, op{n, readData})
	}
	if n.flags&listWanted_ != 0 {
		ops = append(ops, op{n, readList})
	}
	return ops
}

func takeOne(e *engine) (o op, light, ok bool) {
	if e.reads.queue.len() > 0 {
		n := e.reads.queue.items[e.reads.queue.head].n
		light = n.flags&(lookOnly|wanted|gone) == lookOnly|wanted
	}
	o, ok = e.take(1 << 30)
	return o, light && ok && o.kind != readList, ok
}

func takeLeaf(w *oneShotWay) (o op, collected, ok bool) {
	if o, ok = w.e.take(1 << 30); ok {
		collected = w.collect(o)
	}
	return o, collected, ok
}

func rowOf(r raw) (out row) {
	f := r.flags
	if f&gone != 0 {
		return row{gonePart}
	}
	fetch := func(queued, light, inFlight, outdated flags) string {
		switch {
		case f&(queued|inFlight) == 0:
			return ""
		case f&(queued|inFlight) == queued|inFlight:
			return "queued and inFlight"
		case f&queued != 0 && f&light != 0:
			return "light"
		case f&queued != 0:
			return "queued"
		case f&outdated != 0:
			return "outdated"
		}
		return "inFlight"
	}
	out[0] = fetch(wanted, lookOnly, flying, again)
	out[1] = fetch(listWanted_, leaf, listFlying, listAgain)
	switch {
	case f&doubted != 0:
		out[2] = "doubtful"
	case f&proving_ != 0:
		out[2] = "proving"
	}
	for i, bit := range []flags{listed, unproven, counting, watched, watchedList} {
		if f&bit != 0 {
			out[3+i] = "yes"
		}
	}
	return out
}

func wishSteps() []step {
	return []step{
		{name: "want", late: true, do: func(s *scene) { s.want(s.n) }},
		{name: "want another", late: true, do: func(s *scene) { s.wantOther(s.n) }},
		{name: "look", late: true, do: func(s *scene) { s.look(s.n) }},
		{name: "want list", late: true, do: func(s *scene) { s.wantList(s.n) }},
		{name: "count", do: func(s *scene) { s.count(s.n) }},
		{name: "load (root)", root: true, do: func(s *scene) { s.load() }},
		{name: "begin (root)", root: true, do: func(s *scene) { s.begin(newOneShotWay(s.engine)) }},
		{name: "gone", do: func(s *scene) { s.forget(s.n) }},
	}
}

func init() { checkStates = true }
